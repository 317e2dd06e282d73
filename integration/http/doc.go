// Package http holds the tests of HTTP requests whose servers are killed: processes that serve routes behind
// idempotency/httpkey, on PostgreSQL and SQLite, end with SIGKILL while clients repeat their requests until they have an answer.
//
// # Parts
//
// Package plan is what a test and its processes agree on. The program server is the process that is killed; it is built with the
// tag killpoints (see internal/killpoint). Here, in the tests, are: database (where effects are counted), crew (the processes), client
// (which repeats, also through a proxy that sends a request to the next server when one fails), judge (which finds what is wrong with what
// was done and answered, and is tested with histories that are wrong), the kill at each step of a request's way, a process that is stopped
// and wakes up too late, and the storm, which kills and stops servers at random from a seed.
//
// # What is checked
//
// Each request has one effect. Each answer that a client gets is the one that was committed with this effect, with the same status and
// headers, however often the client asks; its Location names the effect, and at most one client is told that its answer is no replay. Nobody
// is left without an answer. An outside call that is recorded as a step is never made again, a server that has lost its lease records none,
// and all attempts get the result that was recorded. A storm in which nothing was replayed, taken over or given back has failed.
package http
