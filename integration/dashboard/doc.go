// Package dashboard tests the Grafana dashboard of examples/metrics: workers to which everything happens are scraped, as
// Prometheus scrapes them, and each of the dashboard's queries is run on the samples by Prometheus' own engine. So are the
// rules of alerts.yaml, on histories that are made up, too.
//
// It is a module of its own, so that Prometheus is in nobody's build but this test's.
package dashboard
