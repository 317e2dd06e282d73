package main

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ackledger/ackledger/consumer"
)

// routes: an orchestrator restarts what is not alive, and takes what is not ready out of its plan (a worker that drains,
// or whose ledger is away, is alive and not ready).
func routes(w consumer.Worker) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, w.Health().Alive, w.Health()) })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, w.Health().Ready, w.Health()) })
	mux.Handle("GET /metrics", promhttp.Handler())
	return mux
}

func answer(rw http.ResponseWriter, ok bool, h consumer.Health) {
	rw.Header().Set("Content-Type", "application/json")
	if !ok {
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(rw).Encode(h) // the client has gone
}
