package consumer

import (
	"encoding/json"
	"net/http"
)

// Probes answers an orchestrator that asks how workers do (Kubernetes: "Configure Liveness, Readiness and Startup Probes"):
//
//   - GET /livez: 200 while all are Alive, else 503: restart the process.
//   - GET /readyz: 200 while all are Ready, else 503: a restart is of no help.
//
// The answer is a JSON array with the Health of each, in their order. It names ids of messages that do not get on, and no bodies.
// Other paths are 404, and other methods 405. It is safe for concurrent use, before Run and after it.
func Probes(workers ...Worker) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(workers, func(h *Health) bool { return h.Alive }))
	mux.HandleFunc("GET /readyz", probe(workers, func(h *Health) bool { return h.Ready }))
	return mux
}

// probe answers whether all workers are fine.
func probe(workers []Worker, fine func(*Health) bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		all, status := make([]Health, 0, len(workers)), http.StatusOK
		for _, w := range workers {
			h := w.Health()
			if all = append(all, h); !fine(&h) {
				status = http.StatusServiceUnavailable
			}
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(all) // an error says that the client has gone
	}
}
