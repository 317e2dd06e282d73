package cloudevents_test

import (
	"context"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/formats/cloudevents"
)

// One handler for events in both modes: with the attributes in headers, and with all in the body.
func Example() {
	handler := cloudevents.Handler(func(_ context.Context, e event.Event) error {
		fmt.Println(e.Type(), e.Source(), string(e.Data()))
		return nil
	})
	for _, m := range []consumer.Message{
		{ID: "m1", Body: []byte(`{"specversion":"1.0","id":"1","source":"/shop","type":"paid","data":{"order":"a"}}`)},
		{ID: "m2", Body: []byte(`{"order":"b"}`), Headers: []consumer.Header{
			{Name: "ce_specversion", Value: []byte("1.0")}, {Name: "ce_id", Value: []byte("2")},
			{Name: "ce_source", Value: []byte("/shop")}, {Name: "ce_type", Value: []byte("paid")},
		}},
		{ID: "m3", Body: []byte(`{"order":"c"}`)},
	} {
		if err := handler.Handle(context.Background(), &m); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// paid /shop {"order":"a"}
	// paid /shop {"order":"b"}
	// message m3: CloudEvent: there is neither a header ce_specversion nor a field specversion in the body
}

// The data alone, by the event's type.
func ExampleEvents() {
	routes, err := consumer.NewRouter(cloudevents.Type, map[string]consumer.Handler{
		"paid": consumer.JSON(func(ctx context.Context, v struct{ Order string }) error {
			fmt.Println(v.Order, "of event", cloudevents.From(ctx).ID())
			return nil
		}),
	}, nil)
	if err != nil {
		panic(err)
	}
	handler := consumer.Chain(routes, cloudevents.Events)
	m := consumer.Message{ID: "m1", Body: []byte(`{"specversion":"1.0","id":"1","source":"/shop","type":"paid","data":{"order":"a"}}`)}
	fmt.Println(handler.Handle(context.Background(), &m))
	// Output:
	// a of event 1
	// <nil>
}
