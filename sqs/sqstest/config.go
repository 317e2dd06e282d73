package sqstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const arnPrefix = "arn:aws:sqs:" + region + ":" + accountID + ":"

// config is a queue's attributes, parsed.
type config struct {
	text map[string]string // as set, for GetQueueAttributes

	fifo         bool
	contentDedup bool
	dedupByGroup bool
	delay        time.Duration
	visibility   time.Duration
	wait         time.Duration
	retention    time.Duration
	maxSize      int
	redrive      *redrivePolicy
	allow        allowPolicy
	modified     time.Time
}

// redrivePolicy is RedrivePolicy: after maxReceives receives to the queue target.
type redrivePolicy struct {
	target      string // queue name
	maxReceives int
}

// allowPolicy is RedriveAllowPolicy. The zero value permits every source.
type allowPolicy struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}

func (p allowPolicy) permits(sourceARN string) bool {
	switch p.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(p.Sources, sourceARN)
	default:
		return true
	}
}

func defaultConfig() config {
	return config{
		text: map[string]string{
			"DelaySeconds": "0", "MaximumMessageSize": strconv.Itoa(maxMessageBytes), "MessageRetentionPeriod": "345600",
			"ReceiveMessageWaitTimeSeconds": "0", "VisibilityTimeout": "30", "SqsManagedSseEnabled": "true",
		},
		visibility: 30 * time.Second, retention: 4 * 24 * time.Hour, maxSize: maxMessageBytes,
	}
}

// setter checks one attribute and takes it over.
type setter func(c *config, name, value string) *apiError

// numberSetter is an attribute with bounds (API reference, CreateQueue).
func numberSetter(low, high int, set func(*config, int)) setter {
	return func(c *config, name, value string) *apiError {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return errAttribute(name, value, fmt.Sprintf("must be an integer from %d to %d", low, high))
		}
		set(c, n)
		return nil
	}
}

func boolSetter(set func(*config, bool)) setter {
	return func(c *config, name, value string) *apiError {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return errAttribute(name, value, "must be true or false")
		}
		set(c, b)
		return nil
	}
}

func choiceSetter(choices []string, set func(*config, string)) setter {
	return func(c *config, name, value string) *apiError {
		if !slices.Contains(choices, value) {
			return errAttribute(name, value, "must be one of "+strings.Join(choices, ", "))
		}
		set(c, value)
		return nil
	}
}

func stored(*config, string, string) *apiError { return nil }

func secondsSetter(low, high int, field func(*config) *time.Duration) setter {
	return numberSetter(low, high, func(c *config, n int) { *field(c) = time.Duration(n) * time.Second })
}

var setters = map[string]setter{
	"DelaySeconds": secondsSetter(0, maxDelaySeconds, func(c *config) *time.Duration { return &c.delay }),
	"MessageRetentionPeriod": secondsSetter(60, 14*24*3600, func(c *config) *time.Duration {
		return &c.retention
	}),
	"ReceiveMessageWaitTimeSeconds": secondsSetter(0, maxWaitSeconds, func(c *config) *time.Duration { return &c.wait }),
	"VisibilityTimeout": secondsSetter(0, int(maxVisibility/time.Second), func(c *config) *time.Duration {
		return &c.visibility
	}),
	"MaximumMessageSize":        numberSetter(1024, maxMessageBytes, func(c *config, n int) { c.maxSize = n }),
	"FifoQueue":                 boolSetter(func(c *config, b bool) { c.fifo = b }),
	"ContentBasedDeduplication": boolSetter(func(c *config, b bool) { c.contentDedup = b }),
	"DeduplicationScope": choiceSetter([]string{"queue", "messageGroup"}, func(c *config, v string) {
		c.dedupByGroup = v == "messageGroup"
	}),
	"FifoThroughputLimit": choiceSetter([]string{"perQueue", "perMessageGroupId"}, func(*config, string) {}),
	"RedrivePolicy":       setRedrive,
	"RedriveAllowPolicy":  setAllow,
	"Policy":              stored, "KmsMasterKeyId": stored, "SqsManagedSseEnabled": stored,
	"KmsDataKeyReusePeriodSeconds": numberSetter(60, 86_400, func(*config, int) {}),
}

// fifoOnly are refused on a standard queue.
var fifoOnly = []string{"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}

func setRedrive(c *config, name, value string) *apiError {
	var p struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"` // a number, or a number in quotes
	}
	if err := json.Unmarshal([]byte(value), &p); err != nil {
		return errAttribute(name, value, "not a JSON object with deadLetterTargetArn and maxReceiveCount")
	}
	n, err := strconv.Atoi(string(bytes.Trim(p.Max, `"`)))
	if err != nil || n < 1 || n > 1000 {
		return errAttribute(name, value, "maxReceiveCount must be an integer from 1 to 1000")
	}
	target, ok := strings.CutPrefix(p.Target, arnPrefix)
	if !ok {
		return errAttribute(name, value, "deadLetterTargetArn must begin with "+arnPrefix)
	}
	c.redrive = &redrivePolicy{target: target, maxReceives: n}
	return nil
}

func setAllow(c *config, name, value string) *apiError {
	var p allowPolicy
	if err := json.Unmarshal([]byte(value), &p); err != nil {
		return errAttribute(name, value, "not a JSON object with redrivePermission")
	}
	if !slices.Contains([]string{"allowAll", "denyAll", "byQueue"}, p.Permission) {
		return errAttribute(name, value, "redrivePermission must be allowAll, denyAll or byQueue")
	}
	if named := len(p.Sources); (p.Permission == "byQueue") != (named > 0) || named > 10 {
		return errAttribute(name, value, "sourceQueueArns holds 1 to 10 queues, with byQueue only")
	}
	c.allow = p
	return nil
}

// with returns the config with attributes set, or what is wrong with them. The
// receiver is left as it is.
func (c config) with(attributes map[string]string) (config, *apiError) {
	c.text = maps.Clone(c.text)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		set, ok := setters[name]
		if !ok {
			return c, fail("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
		if value == "" { // resets what may be absent
			switch name {
			case "RedrivePolicy":
				c.redrive = nil
			case "RedriveAllowPolicy":
				c.allow = allowPolicy{}
			case "Policy", "KmsMasterKeyId":
			default:
				return c, errAttribute(name, value, "must not be empty")
			}
			delete(c.text, name)
			continue
		}
		if err := set(&c, name, value); err != nil {
			return c, err
		}
		c.text[name] = value
	}
	for _, name := range fifoOnly {
		if _, ok := c.text[name]; ok && !c.fifo {
			return c, fail("InvalidAttributeName", "Unknown Attribute %s: the queue is not FIFO.", name)
		}
	}
	return c, nil
}

var queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// checkName holds a queue's name to the rules, and .fifo to FIFO queues.
func checkName(name string, fifo bool) *apiError {
	base, suffixed := strings.CutSuffix(name, ".fifo")
	switch {
	case len(name) > 80 || !queueName.MatchString(base):
		return errValue("QueueName", strconv.Quote(name), "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.")
	case fifo && !suffixed:
		return errValue("QueueName", name, "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
	case !fifo && suffixed:
		return errValue("QueueName", name, "Only a FIFO queue (FifoQueue=true) may end with .fifo.")
	}
	return nil
}

// attributes are the queue's attributes as GetQueueAttributes names them.
func (q *queue) attributes() map[string]string {
	out := maps.Clone(q.config.text)
	out["QueueArn"] = q.arn()
	out["CreatedTimestamp"] = seconds(q.created)
	out["LastModifiedTimestamp"] = seconds(q.config.modified)
	out["ApproximateNumberOfMessages"] = strconv.Itoa(q.held[visible])
	out["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.held[inFlight])
	out["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.held[delayed])
	if q.fifo {
		for name, value := range map[string]string{
			"ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue",
		} {
			if out[name] == "" {
				out[name] = value
			}
		}
	}
	return out
}
