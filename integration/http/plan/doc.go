// Package plan is what the tests of package http and their server processes agree on: the orders of a process, the steps at which it
// may be killed beside those of internal/killpoint, the routes and how they are drawn, and the tables in which effects are counted.
package plan
