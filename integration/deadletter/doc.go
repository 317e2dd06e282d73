// Package deadletter tests that failed messages reach their dead-letter queue or topic and come back from there, between
// all kinds of sources and targets, on servers in this process and on real ones.
package deadletter
