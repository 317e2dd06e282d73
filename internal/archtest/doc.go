// Package archtest holds the import rules of docs/design.md §11 as a test: who may import whom.
package archtest
