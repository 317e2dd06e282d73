package main

import "github.com/ackledger/ackledger/internal/operate"

// What people read is written as the web page writes it.
var (
	count       = operate.Count
	short       = operate.Short
	size        = operate.Size
	text        = operate.Text
	safe        = operate.Safe
	unprintable = operate.Unprintable
	difference  = operate.Difference
)
