// Package reliability keeps what long runs came to in a page, docs/reliability.md: each run writes its own part, and leaves the
// rest alone.
package reliability
