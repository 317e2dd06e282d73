package registry_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/formats/registry"
)

// A topic of Avro orders. In a program the URL is the registry's own, with sr.BasicAuth and sr.DialTLSConfig as it wants.
func Example() {
	server := srfake.New()
	defer server.Close()
	server.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`})
	client, err := sr.NewClient(sr.URLs(server.URL()))
	if err != nil {
		panic(err)
	}
	schemas, err := registry.New(client)
	if err != nil {
		panic(err)
	}
	type order struct {
		ID string `avro:"id"`
	}
	orders := registry.Avro(schemas, nil, func(_ context.Context, o order) error {
		fmt.Println("order", o.ID)
		return nil
	})
	router, err := consumer.NewRouter(registry.Type, map[string]consumer.Handler{"Order": orders}, nil)
	if err != nil {
		panic(err)
	}
	handler := consumer.Chain(router, schemas.Schemas)
	for _, body := range []string{"\x00\x00\x00\x00\x07\x02a", `{"id":"a"}`} {
		if err := handler.Handle(context.Background(), &consumer.Message{ID: "orders-0-1", Body: []byte(body)}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// order a
	// message orders-0-1: body of 10 bytes does not begin with a zero byte and a schema's id
}
