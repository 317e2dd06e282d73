// Package dashboard tests the Grafana dashboard of examples/metrics: workers to which everything happens are scraped, as
// Prometheus scrapes them, and each of the dashboard's queries is run on the samples by Prometheus' own engine.
//
// It is a module of its own, so that Prometheus is in nobody's build but this test's.
package dashboard
