// Package postgres keeps the ledger in PostgreSQL (14 to 18), for workers on any number of machines.
package postgres
