package kafka

import (
	"context"
	"reflect"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hidden is a record's context without what the client knows the record by. A poll accepts all that the poll before has brought and
// that has no decision: it finds nothing of what is hidden (kgo 1.22.3, shareConsumer.trackLastPolled). What other hooks have put there,
// such as spans, is still found.
type hidden struct{ context.Context }

// Value implements context.Context.
func (h *hidden) Value(key any) any {
	if key == (hiding{}) {
		return h
	}
	v := h.Context.Value(key)
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == kgoPath {
		return nil
	}
	return v
}

// kgoPath is of the client's own types. Only the client itself knows the key of what it keeps in a record's context.
var kgoPath = reflect.TypeFor[kgo.Record]().PkgPath()

// hiding is the key by which what is hidden is found again, whatever other hooks have put around it.
type hiding struct{}

// hide makes the client's poll blind for a record.
func hide(r *kgo.Record) {
	if r.Context != nil {
		r.Context = &hidden{r.Context}
	}
}

// reveal undoes hide: what is acknowledged has to be known.
func reveal(r *kgo.Record) {
	if r.Context == nil {
		return
	}
	if h, ok := r.Context.Value(hiding{}).(*hidden); ok {
		r.Context = h.Context
	}
}
