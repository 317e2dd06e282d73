// Package http holds the tests of HTTP requests whose servers are killed: processes that serve a route behind
// idempotency/httpkey, on PostgreSQL and SQLite, end with SIGKILL while clients repeat their requests until they have an answer.
//
// # Parts
//
// Package plan is what a test and its processes agree on. The program server is the process that is killed; it is built with the
// tag killpoints (see internal/killpoint). Here, in the tests, are: database (where effects are counted), crew (the processes), client
// (which repeats, also through a proxy that sends a request to the next server when one fails), the kill at each step of a request's
// way, a process that is stopped and wakes up too late, and the storm, which kills servers at random from a seed.
//
// # What is checked
//
// Each key has one effect. Each answer that a client gets is the one that was committed with this effect, with the same status and
// headers, however often the client asks. Nobody is left without an answer.
package http
