package sqstest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

type createInput struct {
	QueueName  string
	Attributes map[string]string
	Tags       map[string]string
}

func (in createInput) target() string { return in.QueueName }

type urlOutput struct{ QueueUrl string }

func isFIFO(name string) bool { return strings.HasSuffix(name, ".fifo") }

func (s *Server) createQueue(_ *call, in *createInput) (*urlOutput, *apiError) {
	if err := s.create(in.QueueName, in.Attributes, in.Tags); err != nil {
		return nil, err
	}
	return &urlOutput{s.queueURL(in.QueueName)}, nil
}

// create makes a queue, or accepts one that has these very attributes.
func (s *Server) create(name string, attributes, tags map[string]string) *apiError {
	if name == "" {
		return errMissing("QueueName")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	c, err := defaultConfig().with(attributes)
	if err != nil {
		return err
	}
	if err := checkName(name, c.fifo); err != nil {
		return err
	}
	if existing := s.queues[name]; existing != nil {
		for attribute, value := range attributes {
			if existing.config.text[attribute] != value {
				return fail("QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute %s.", attribute)
			}
		}
		return nil
	}
	if err := s.checkRedrive(name, c); err != nil {
		return err
	}
	c.modified = now
	q := newQueue(s, name, c, now)
	maps.Copy(q.tags, tags)
	s.queues[name] = q
	return nil
}

// checkRedrive holds a redrive policy to an existing, willing queue of the same
// type (developer guide, "Using dead-letter queues"). The lock is held.
func (s *Server) checkRedrive(source string, c config) *apiError {
	if c.redrive == nil {
		return nil
	}
	target := s.queues[c.redrive.target]
	reason := ""
	switch {
	case target == nil:
		reason = "Dead letter target does not exist."
	case target.fifo != c.fifo:
		reason = "Dead-letter queue must be same type of queue as the source."
	case !target.config.allow.permits(arnPrefix + source):
		reason = "The dead-letter queue's redrive allow policy does not permit this source queue."
	default:
		return nil
	}
	return errValue("RedrivePolicy", c.text["RedrivePolicy"], reason)
}

type nameInput struct{ QueueName string }

func (in nameInput) target() string { return in.QueueName }

func (s *Server) getQueueURL(_ *call, in *nameInput) (*urlOutput, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[in.QueueName] == nil {
		return nil, errNoQueue(in.QueueName)
	}
	return &urlOutput{s.queueURL(in.QueueName)}, nil
}

type listInput struct {
	QueueNamePrefix string
	page
}

func (listInput) target() string { return "" }

type listOutput struct {
	QueueUrls []string `json:",omitempty"`
	NextToken string   `json:",omitempty"`
}

// page is a part of a list; the token is the last name of the part before.
type page struct {
	MaxResults *int
	NextToken  string
}

const maxPage = 1000

// cut takes the page out of sorted names.
func (p page) cut(names []string) (part []string, next string, err *apiError) {
	limit := maxPage
	if p.MaxResults != nil {
		if limit = *p.MaxResults; limit < 1 || limit > maxPage {
			return nil, "", errValue("MaxResults", limit, "Must be between 1 and 1000.")
		}
	}
	from, found := slices.BinarySearch(names, p.NextToken)
	if found {
		from++
	}
	names = names[from:]
	if p.MaxResults != nil && len(names) > limit { // without MaxResults there is no token
		next = names[limit-1]
	}
	return names[:min(limit, len(names))], next, nil
}

func (s *Server) urls(names []string, p page) (part []string, next string, err *apiError) {
	slices.Sort(names)
	names, next, err = p.cut(names)
	for _, name := range names {
		part = append(part, s.queueURL(name))
	}
	return part, next, err
}

func (s *Server) listQueues(_ *call, in *listInput) (*listOutput, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.queues {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			names = append(names, name)
		}
	}
	urls, next, err := s.urls(names, in.page)
	return &listOutput{QueueUrls: urls, NextToken: next}, err
}

type sourcesInput struct {
	queueRef
	page
}

type sourcesOutput struct {
	QueueURLs []string `json:"queueUrls"`
	NextToken string   `json:",omitempty"`
}

func (s *Server) listDeadLetterSources(_ *call, in *sourcesInput) (*sourcesOutput, *apiError) {
	out := &sourcesOutput{}
	err := s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) (err *apiError) {
		out.QueueURLs, out.NextToken, err = s.urls(s.sourcesOf(q), in.page)
		return err
	})
	if out.QueueURLs == nil {
		out.QueueURLs = []string{}
	}
	return out, err
}

// sourcesOf are the names of the queues whose dead letters go to q.
func (s *Server) sourcesOf(q *queue) []string {
	var names []string
	for name, source := range s.queues {
		if p := source.config.redrive; p != nil && p.target == q.name {
			names = append(names, name)
		}
	}
	return names
}

func (s *Server) deleteQueue(_ *call, in *queueRef) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		q.empty()
		for len(q.dedupOrder) > 0 {
			q.forget()
		}
		q.deleted = true
		delete(s.queues, q.name)
		return nil
	})
}

func (s *Server) purgeQueue(_ *call, in *queueRef) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		q.empty()
		return nil
	})
}

// empty drops all messages of a queue.
func (q *queue) empty() {
	for m, _ := q.retained.first(); m != nil; m, _ = q.retained.first() {
		q.drop(m)
	}
}

type attributesInput struct {
	queueRef
	AttributeNames []string
}

type attributesOutput struct {
	Attributes map[string]string `json:",omitempty"`
}

// readable are the names that GetQueueAttributes may ask for beside those that
// can be set.
var readable = []string{
	"All", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", "ApproximateNumberOfMessages",
	"ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
}

func (s *Server) getQueueAttributes(_ *call, in *attributesInput) (*attributesOutput, *apiError) {
	for _, name := range in.AttributeNames {
		if setters[name] == nil && !slices.Contains(readable, name) {
			return nil, fail("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	out := &attributesOutput{}
	return out, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		out.Attributes = q.attributes()
		if !slices.Contains(in.AttributeNames, "All") {
			maps.DeleteFunc(out.Attributes, func(name, _ string) bool { return !slices.Contains(in.AttributeNames, name) })
		}
		return nil
	})
}

type setAttributesInput struct {
	queueRef
	Attributes map[string]string
}

func (s *Server) setQueueAttributes(_ *call, in *setAttributesInput) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, now time.Time) *apiError {
		c, err := q.config.with(in.Attributes)
		if err != nil {
			return err
		}
		if c.fifo != q.fifo {
			return errAttribute("FifoQueue", in.Attributes["FifoQueue"], "the type of a queue can't be changed")
		}
		if err := s.checkRedrive(q.name, c); err != nil {
			return err
		}
		c.modified = now
		q.config = c
		q.advance(now)
		return nil
	})
}

type tagInput struct {
	queueRef
	Tags map[string]string
}

func (s *Server) tagQueue(_ *call, in *tagInput) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		maps.Copy(q.tags, in.Tags)
		return nil
	})
}

type untagInput struct {
	queueRef
	TagKeys []string
}

func (s *Server) untagQueue(_ *call, in *untagInput) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		for _, key := range in.TagKeys {
			delete(q.tags, key)
		}
		return nil
	})
}

type tagsOutput struct {
	Tags map[string]string `json:",omitempty"`
}

func (s *Server) listQueueTags(_ *call, in *queueRef) (*tagsOutput, *apiError) {
	out := &tagsOutput{}
	return out, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		out.Tags = maps.Clone(q.tags)
		return nil
	})
}
