// Command worker is a worker of the test of upgrades. main.go is built in this tree and in an earlier one, so it uses what both have.
package main
