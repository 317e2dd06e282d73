// Package life holds the tests of a long life: what a worker leaves behind when it starts and stops a thousand times in one
// process, and what the steps of a message come to whose process is killed. The soak at full load is a command of the benchmark's module (make soak).
package life
