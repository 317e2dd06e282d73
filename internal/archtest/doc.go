// Package archtest holds the import rules of docs/design.md §11 as tests: who may import whom, and which modules a user gets.
package archtest
