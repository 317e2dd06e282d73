package consumer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ackledger/ackledger/consumer"
)

// probed is a worker with a Health of the test's.
type probed struct {
	consumer.Worker
	health consumer.Health
}

func (p probed) Health() consumer.Health { return p.health }

func TestProbes(t *testing.T) {
	t.Parallel()
	up, busy, hung := consumer.Health{Alive: true, Ready: true}, consumer.Health{Alive: true, LastError: "no ledger"}, consumer.Health{Ready: true}
	for name, c := range map[string]struct {
		method, path string
		workers      []consumer.Health
		want         int
	}{
		"all are alive":      {http.MethodGet, "/livez", []consumer.Health{up, busy}, http.StatusOK},
		"one is not ready":   {http.MethodGet, "/readyz", []consumer.Health{up, busy}, http.StatusServiceUnavailable},
		"one is not alive":   {http.MethodGet, "/livez", []consumer.Health{hung, up}, http.StatusServiceUnavailable},
		"all are ready":      {http.MethodHead, "/readyz", []consumer.Health{up, hung}, http.StatusOK},
		"no worker":          {http.MethodGet, "/readyz", nil, http.StatusOK},
		"another path":       {http.MethodGet, "/", []consumer.Health{up}, http.StatusNotFound},
		"nothing is changed": {http.MethodPost, "/livez", []consumer.Health{up}, http.StatusMethodNotAllowed},
	} {
		var workers []consumer.Worker
		for _, h := range c.workers {
			workers = append(workers, probed{health: h})
		}
		got := httptest.NewRecorder()
		consumer.Probes(workers...).ServeHTTP(got, httptest.NewRequestWithContext(context.Background(), c.method, c.path, nil))
		if got.Code != c.want {
			t.Errorf("%s: %d, want %d", name, got.Code, c.want)
		}
		if got.Code != http.StatusOK && got.Code != http.StatusServiceUnavailable {
			continue
		}
		var all []consumer.Health
		if err := json.Unmarshal(got.Body.Bytes(), &all); err != nil || len(all) != len(c.workers) {
			t.Errorf("%s: %s, %v", name, got.Body, err)
		}
	}
}
