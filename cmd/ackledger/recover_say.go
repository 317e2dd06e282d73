package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ackledger/ackledger/kafka"
)

// committed is a partition for programs.
type committed struct {
	Group      string     `json:"group"`
	State      string     `json:"state"` // the group's
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Ledger     string     `json:"ledger"` // that the commit names
	Committed  int64      `json:"committed"`
	Back       int64      `json:"back"` // where the group is to go on
	Unfinished int64      `json:"unfinished"`
	Unseen     bool       `json:"unseen"`
	Below      int64      `json:"below"`
	First      *time.Time `json:"first"` // of the unfinished ones; null: none
	Last       *time.Time `json:"last"`
}

// say prints what was found.
func (r *recovering) say(scopes []string, list []kafka.Committed, out io.Writer) error {
	for i := range list {
		c := &list[i]
		if !r.json {
			fmt.Fprintln(out, safe(lineOf(c)))
			continue
		}
		line := committed{c.Group, c.State, c.Topic, c.Partition, c.LedgerID, c.Offset, c.Back, c.Unfinished, c.Unseen, c.Below, nil, nil}
		if !c.First.IsZero() {
			first, last := c.First.UTC(), c.Last.UTC()
			line.First, line.Last = &first, &last
		}
		if err := printJSON(out, line); err != nil {
			return err
		}
	}
	if r.json {
		return nil
	}
	if !r.named() {
		fmt.Fprintln(out, "no --brokers: what groups of Kafka have committed is not compared")
	}
	for _, s := range scopes {
		if strings.HasPrefix(s, "sqs:") {
			fmt.Fprintf(out, "%s: what was deleted from the queue after the backup does not come again: let producers send it again, under the same ids\n", text(s))
		}
	}
	return nil
}

func lineOf(c *kafka.Committed) string {
	line := fmt.Sprintf("%s (%s) has committed %d: ", placeOf(c), c.State, c.Offset)
	span := fmt.Sprintf("%s records of %s to %s", count(c.Unfinished), c.First.UTC().Format(time.DateTime), c.Last.UTC().Format(time.DateTime))
	switch {
	case c.Unseen:
		line += fmt.Sprintf("the ledger knows none of the %s below, from %d on", span, c.Start)
	case c.Back < c.Offset:
		line += fmt.Sprintf("the ledger lacks %s, it is to go back to %d", span, c.Back)
	default:
		line += "the ledger has all that is below"
	}
	if c.Below > 0 {
		line += fmt.Sprintf(" (%s records further below are not known, or not any more)", count(c.Below))
	}
	return line
}
