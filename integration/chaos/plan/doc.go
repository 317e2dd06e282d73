// Package plan is what a storm's test and its worker processes agree on: the orders of a process, what the handler does
// with each message at each attempt (pure, drawn from a seed), and the page of memory in which a process counts, so that
// what it did just before a SIGKILL is known.
package plan
