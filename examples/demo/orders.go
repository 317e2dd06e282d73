package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// order is what a customer pays for. Its id is the business key: the same order sent twice is one message.
type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
	// Declines says how often the payment is declined before it goes through.
	Declines int `json:"declines,omitempty"`
}

// message is one thing to send: an order or, if bad, a body that is no order.
type message struct {
	id   string
	body []byte
	bad  bool
}

// The mix: of 50 orders five are sent twice and one is declined at first; each broker gets 5 bodies that are not JSON.
const (
	duplicateEvery = 10
	declinedEvery  = 50
	badPerBroker   = 5
)

// plan returns what is sent to a broker, n orders with everything that goes wrong with them, in the order of sending.
func plan(broker string, n int, random *rand.Rand) []message {
	var out []message
	for i := range n {
		o := order{ID: fmt.Sprintf("%s-order-%05d", broker, i+1), Cents: 100 + random.IntN(10_000)}
		if i%declinedEvery == 0 {
			o.Declines = 1 + random.IntN(2)
		}
		body, err := json.Marshal(o)
		if err != nil {
			panic(err) // a struct of strings and numbers has a JSON form
		}
		m := message{id: o.ID, body: body}
		out = append(out, m)
		if i%duplicateEvery == 0 {
			out = append(out, m)
		}
	}
	for i := range badPerBroker {
		out = append(out, message{id: fmt.Sprintf("%s-bad-%d", broker, i+1), body: []byte("<order/>"), bad: true})
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// wanted splits a plan by how its messages must end.
func wanted(messages []message) (orders, bad map[string]message) {
	orders, bad = map[string]message{}, map[string]message{}
	for _, m := range messages {
		if m.bad {
			bad[m.id] = m
		} else {
			orders[m.id] = m
		}
	}
	return orders, bad
}
