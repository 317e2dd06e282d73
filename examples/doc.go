// Package examples holds the tests of the programs in its folders, one for each feature, and of what README.md and docs/
// say. Start with sqs-worker or kafka-worker; demo is what `make demo` runs.
package examples
