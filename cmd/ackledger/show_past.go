package main

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// pastLife is what is kept of an earlier life of a key, whose row is gone.
type pastLife struct {
	State       string     `json:"state"`
	Token       uint64     `json:"token"`
	Attempts    int        `json:"attempts"`
	Crashes     int        `json:"crashes"`
	At          *time.Time `json:"at,omitempty"`
	Expiry      *time.Time `json:"expiry,omitempty"`
	Until       *time.Time `json:"until,omitempty"`
	ResultBytes int        `json:"result_bytes"`
	Result      []byte     `json:"result,omitempty"` // asked for
}

func newPast(list []ledger.Past) (out []pastLife) {
	for i := range list {
		p := &list[i]
		out = append(out, pastLife{State: stateText(p.State), Token: p.Token, Attempts: p.Attempts, Crashes: p.Crashes, At: stamp(p.At),
			Expiry: stamp(p.Expiry), Until: stamp(p.Until), ResultBytes: len(p.Result) + p.Bytes, Result: p.Result})
	}
	return out
}

// printPast writes them for people; results come if they were read.
func printPast(p *page, list []ledger.Past) {
	for i := range list {
		l := &list[i]
		p.line("earlier", "%s, token %d, retries %d, crashes %d", stateText(l.State), l.Token, l.Attempts, l.Crashes)
		p.line("  claimed", "%s, expired %s, kept until %s", instant(l.At), instant(l.Expiry), instant(l.Until))
		p.line("  result", "%s", size(int64(len(l.Result)+l.Bytes)))
		if l.Result != nil {
			p.content(l.Result)
		}
	}
}
