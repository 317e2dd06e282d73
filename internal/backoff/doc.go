// Package backoff computes the delays between retries. It is pure: chance and time are the caller's.
package backoff
