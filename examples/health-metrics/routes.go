package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ackledger/ackledger/consumer"
)

// routes: an orchestrator restarts what is not alive, and takes what is not ready out of its plan (a worker that drains,
// or whose ledger is away, is alive and not ready).
func routes(w consumer.Worker) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.Handle("/", consumer.Probes(w)) // /livez and /readyz
	return mux
}
