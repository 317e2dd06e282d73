package registry_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/formats/registry"
)

type order struct {
	ID    string `avro:"id" json:"id"`
	Cents int64  `avro:"cents" json:"cents"`
	Note  string `avro:"note" json:"note"`
}

const (
	avroOrder  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"},{"name":"cents","type":"int"}]}`
	avroReader = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"},{"name":"cents","type":"long"},` +
		`{"name":"note","type":"string","default":"none"}]}`
	avroList  = `{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}`
	avroNulls = `{"type":"array","items":"null"}`
	jsonOrder = `{"title":"Order","type":"object","required":["id"],"properties":{"id":{"type":"string","maxLength":40},` +
		`"cents":{"type":"integer","minimum":0,"multipleOf":1},"of":{"$ref":"money.json"}}}`
	jsonMoney  = `{"type":"object","properties":{"currency":{"enum":["EUR"]}}}`
	protoTimes = `syntax = "proto3"; package google.protobuf; message Other { message Inner { string s = 1; } } ` +
		`message Timestamp { int64 seconds = 1; int32 nanos = 2; }`
)

// The ids of what the tests' registry has.
const (
	idAvro = iota + 1
	idList
	idNulls
	idMoney
	idJSON
	idProto
	idBrokenAvro
	idBrokenJSON
	idBrokenProto
	idAvroPair
	idFileRef
	idUnknown = 99
)

type fake struct {
	*srfake.Registry
	r     *registry.Registry
	asked atomic.Int32
}

func start(t testing.TB) *fake {
	t.Helper()
	f := &fake{Registry: srfake.New()}
	t.Cleanup(f.Close)
	schemas := map[int]sr.Schema{
		idAvro: {Schema: avroOrder}, idList: {Schema: avroList}, idNulls: {Schema: avroNulls}, idMoney: {Schema: jsonMoney, Type: sr.TypeJSON},
		idProto: {Schema: protoTimes, Type: sr.TypeProtobuf}, idBrokenAvro: {Schema: `{"type":"x"}`}, idBrokenJSON: {Schema: `{"type":5}`, Type: sr.TypeJSON},
		idBrokenProto: {Schema: `message {`, Type: sr.TypeProtobuf}, idFileRef: {Schema: `{"$ref":"file:///etc/passwd"}`, Type: sr.TypeJSON},
		idJSON: {Schema: jsonOrder, Type: sr.TypeJSON, References: []sr.SchemaReference{{Name: "money.json", Subject: fmt.Sprint("s", idMoney), Version: 1}}},
		idAvroPair: {Schema: `{"type":"record","name":"Pair","fields":[{"name":"a","type":"shop.Order"},{"name":"b","type":"shop.Order"}]}`,
			References: []sr.SchemaReference{{Name: "shop.Order", Subject: fmt.Sprint("s", idAvro), Version: 1}}},
	}
	for _, id := range slices.Sorted(maps.Keys(schemas)) { // what others refer to goes before them
		f.SeedSchema(fmt.Sprint("s", id), 1, id, schemas[id])
	}
	f.Intercept(func(http.ResponseWriter, *http.Request) bool { f.asked.Add(1); return false })
	client, err := sr.NewClient(sr.URLs(f.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if f.r, err = registry.New(client); err != nil {
		t.Fatal(err)
	}
	return f
}

// wire is a body in Confluent's format.
func wire(id int, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), rest...)
}

func wireText(id int, rest string) []byte { return wire(id, []byte(rest)...) }

func avroBytes(t testing.TB, v any) []byte {
	t.Helper()
	b, err := avro.MustParse(avroOrder).Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func protoBytes(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func handle(t testing.TB, h consumer.Handler, body []byte) error {
	t.Helper()
	return h.Handle(t.Context(), &consumer.Message{ID: "m1", Body: body})
}

func TestEachFormat(t *testing.T) {
	f := start(t)
	var got []order
	take := func(_ context.Context, o order) error { got = append(got, o); return nil }
	plain := avroBytes(t, order{ID: "a", Cents: 5})
	for range 2 {
		for _, c := range []struct {
			h    consumer.Handler
			body []byte
			want order
		}{
			{registry.Avro(f.r, nil, take), wire(idAvro, plain...), order{ID: "a", Cents: 5}},
			{registry.Avro(f.r, avro.MustParse(avroReader), take), wire(idAvro, plain...), order{ID: "a", Cents: 5, Note: "none"}},
			{registry.Avro(f.r, nil, func(_ context.Context, p struct {
				A order `avro:"a"`
				B order `avro:"b"`
			}) error {
				got = append(got, p.B)
				return nil
			}), wire(idAvroPair, append(plain, plain...)...), order{ID: "a", Cents: 5}},
			{registry.JSON(f.r, take), wireText(idJSON, `{"id":"a","cents":5,"of":{"currency":"EUR"}}`), order{ID: "a", Cents: 5}},
			{registry.Protobuf(f.r, func(_ context.Context, ts *timestamppb.Timestamp) error {
				got = append(got, order{Cents: ts.GetSeconds()})
				return nil
			}), wire(idProto, append([]byte{2, 2}, protoBytes(t, &timestamppb.Timestamp{Seconds: 5})...)...), order{Cents: 5}},
		} {
			got = nil
			if err := handle(t, c.h, c.body); err != nil || len(got) != 1 || got[0] != c.want {
				t.Errorf("%q: %v, %+v, want %+v", c.body, err, got, c.want)
			}
		}
	}
	if n := f.asked.Load(); n != 6 { // four schemas, two references
		t.Errorf("the registry was asked %d times", n)
	}
	failed := errors.New("mine")
	h := registry.Avro(f.r, nil, func(context.Context, order) error { return failed })
	if err := handle(t, h, wire(idAvro, plain...)); !errors.Is(err, failed) || consumer.IsTerminal(err) {
		t.Error(err)
	}
}

func TestWhatDoesNotFitFailsForGoodByName(t *testing.T) {
	f := start(t)
	never := func(context.Context, order) error { t.Error("the handler ran"); return nil }
	avros, jsons := registry.Avro(f.r, nil, never), registry.JSON(f.r, never)
	times := registry.Protobuf(f.r, func(context.Context, *timestamppb.Timestamp) error { t.Error("the handler ran"); return nil })
	list := registry.Avro(f.r, nil, func(context.Context, any) error { t.Error("the handler ran"); return nil })
	plain := avroBytes(t, order{ID: "SECRET", Cents: 5})
	for _, c := range []struct {
		h    consumer.Handler
		body []byte
		want string
	}{
		{avros, nil, "body of 0 bytes does not begin with a zero byte and a schema's id"},
		{jsons, []byte(`{"id":"SECRET"}`), "body of 15 bytes does not begin with"},
		{times, []byte{0, 0, 0, 1}, "body of 4 bytes does not begin with"},
		{avros, wire(idJSON), "schema 5: must be AVRO, is JSON"},
		{jsons, wire(idAvro), "schema 1: must be JSON, is AVRO"},
		{times, wire(idAvro), "schema 1: must be PROTOBUF, is AVRO"},
		{avros, wire(idBrokenAvro), "schema 7 (AVRO): "},
		{jsons, wire(idBrokenJSON), "schema 8 (JSON): "},
		{times, wire(idBrokenProto), "schema 9 (PROTOBUF): "},
		{jsons, wireText(idFileRef, `1`), "schema 11 (JSON): "},
		{avros, wire(idAvro, plain[:4]...), "4 bytes do not fit schema 1: "},
		{avros, wire(idAvro, append(plain, "SECRET"...)...), "schema 1: 6 of 14 bytes are left behind the value"},
		{registry.Avro(f.r, avro.MustParse(`"int"`), never), wire(idAvro, plain...), "schema 1 does not fit the reader's: "},
		{registry.Avro(f.r, nil, func(context.Context, int) error { return nil }), wire(idAvro, plain...), "8 bytes do not fit schema 1: "},
		{list, wire(idNulls, binary.AppendVarint(nil, 1<<40)...), "do not fit schema 3: "},
		{list, wireText(idList, strings.Repeat("\x02", 1<<20)), "do not fit schema 2: "},
		{jsons, wireText(idJSON, `{"id":"SECRET"`), "schema 5: JSON ends too early at byte 14"},
		{jsons, wireText(idJSON, `{"cents":1}`), "the body does not fit schema.json#, keyword required"},
		{jsons, wireText(idJSON, `{"id":"a","cents":"SECRET"}`), "the body does not fit schema.json#/properties/cents, keyword type"},
		{jsons, wireText(idJSON, `{"id":"a","of":{"currency":"SECRET"}}`), "the body does not fit money.json#/properties/currency, keyword enum"},
		{jsons, wireText(idJSON, `{"id":"a","cents":1,"cents":-1}`), "an object has a name twice, at byte"},
		{jsons, wireText(idJSON, `{"id":"a","cents":1e2000000}`), "must have an exponent of -400 to 400"},
		{jsons, wireText(idJSON, `{"id":"a","cents":1e-2000000}`), "must have an exponent of -400 to 400"},
		{jsons, wireText(idJSON, `{"id":"a","cents":`+strings.Repeat("1", 1001)+`}`), "must have at most 1000 bytes, has 1001"},
		{jsons, wireText(idJSON, `{"id":"a","note":5}`), "schema 5: JSON of 19 bytes: byte 17 does not fit Go type string"},
		{jsons, wireText(idJSON, "{\"id\":\"\xff\"}"), "must be UTF-8"},
		{jsons, wireText(idJSON, strings.Repeat("[", 2000)), "nested deeper than 1000 levels"},
		{times, wire(idProto), "the message's place in it cannot be read"},
		{times, wire(idProto, binary.AppendVarint(nil, 1<<62)...), "the message's place in it cannot be read: it must have 1 to 32 numbers"},
		{times, wire(idProto, 2, 4), "schema 6 has no message at [2]"},
		{times, wire(idProto, 2, 1), "schema 6 has no message at [-1]"},
		{times, wire(idProto, 4, 0, 0), "schema 6: must be message google.protobuf.Timestamp, is google.protobuf.Other.Inner"},
		{times, wire(idProto, 0), "schema 6: must be message google.protobuf.Timestamp, is google.protobuf.Other"},
		{times, wire(idProto, append([]byte{2, 2}, "SECRET"...)...), "schema 6: 6 bytes are no message google.protobuf.Timestamp"},
	} {
		err := handle(t, c.h, c.body)
		if err == nil || !consumer.IsTerminal(err) || !strings.HasPrefix(err.Error(), "message m1: ") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.60q: %v, want %s", c.body, err, c.want)
		}
	}
}

// A name in another case is another name: what was checked is what T gets.
func TestJSONHasNoOtherNames(t *testing.T) {
	f := start(t)
	var got order
	h := registry.JSON(f.r, func(_ context.Context, o order) error { got = o; return nil })
	if err := handle(t, h, wireText(idJSON, `{"id":"a","cents":5,"Cents":-1}`)); err != nil || got.Cents != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A registry that is away, or does not know an id yet, is no fault of the message: it is tried again.
func TestARegistryThatDoesNotAnswer(t *testing.T) {
	f := start(t)
	h := registry.Avro(f.r, nil, func(context.Context, order) error { return nil })
	body := wire(idAvro, avroBytes(t, order{ID: "a"})...)
	f.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if err := handle(t, h, body); err == nil || consumer.IsTerminal(err) || !strings.Contains(err.Error(), "registry: schema 1: ") {
		t.Error(err)
	}
	f.ClearInterceptors()
	if err := handle(t, h, wire(idUnknown)); err == nil || consumer.IsTerminal(err) || !strings.Contains(err.Error(), "registry: schema 99: ") {
		t.Error(err)
	}
	if err := handle(t, h, body); err != nil {
		t.Error(err)
	}
	f.Close()
	if err := handle(t, h, body); err != nil {
		t.Errorf("a schema that is kept needs no registry: %v", err)
	}
}

func TestSchemasTellWhatAMessageIs(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		body []byte
		want registry.Schema
	}{
		{wire(idAvro), registry.Schema{ID: idAvro, Type: sr.TypeAvro, Name: "shop.Order"}},
		{wire(idNulls), registry.Schema{ID: idNulls, Type: sr.TypeAvro}},
		{wire(idJSON), registry.Schema{ID: idJSON, Type: sr.TypeJSON, Name: "Order"}},
		{wire(idProto, 4, 0, 0), registry.Schema{ID: idProto, Type: sr.TypeProtobuf, Name: "google.protobuf.Other.Inner"}},
	} {
		called := false
		h := f.r.Schemas(consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			called = true
			if got := registry.From(ctx); got != c.want || registry.Type(ctx, m) != c.want.Name {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			return nil
		}))
		if err := handle(t, h, c.body); err != nil || !called {
			t.Errorf("%+v: %v", c.want, err)
		}
	}
	h := f.r.Schemas(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { t.Error("it ran"); return nil }))
	for _, body := range [][]byte{nil, wire(idProto, 2, 4), wire(idBrokenProto)} {
		if err := handle(t, h, body); !consumer.IsTerminal(err) {
			t.Errorf("%q: %v", body, err)
		}
	}
	if f.r.Schemas(nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestNilIsRefused(t *testing.T) {
	f := start(t)
	if r, err := registry.New(nil); r != nil || err == nil {
		t.Error("a registry without a client")
	}
	for i, h := range []consumer.Handler{
		registry.Avro[order](f.r, nil, nil), registry.JSON[order](f.r, nil), registry.Protobuf[*timestamppb.Timestamp](f.r, nil),
		registry.Avro(nil, nil, func(context.Context, order) error { return nil }),
		registry.Protobuf(f.r, func(context.Context, proto.Message) error { return nil }),
	} {
		if h != nil {
			t.Errorf("handler %d", i)
		}
	}
}

// More schemas than are kept, and one with too many references.
func TestBounds(t *testing.T) {
	f := start(t)
	h := registry.Protobuf(f.r, func(context.Context, *wrapperspb.StringValue) error { return nil })
	text := `syntax = "proto3"; package google.protobuf; message StringValue { string value = 1; }`
	for i := range registry.MaxSchemas + 1 {
		f.SeedSchema(fmt.Sprint("many", i), 1, 1000+i, sr.Schema{Schema: text + fmt.Sprint("// ", i), Type: sr.TypeProtobuf})
		if err := handle(t, h, wire(1000+i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := handle(t, h, wire(1000, 0)); err != nil {
		t.Error(err)
	}
	var refs []sr.SchemaReference
	for i := range registry.MaxReferences + 1 {
		refs = append(refs, sr.SchemaReference{Name: fmt.Sprint(i), Subject: fmt.Sprint("many", i), Version: 1})
	}
	f.SeedSchema("refs", 1, 9000, sr.Schema{Schema: text, Type: sr.TypeProtobuf, References: refs})
	if err := handle(t, h, wire(9000, 0)); err == nil || !strings.Contains(err.Error(), "schema 9000: refers to more than 100 others") {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	fake := start(f)
	handlers := []consumer.Handler{
		registry.Avro(fake.r, nil, func(context.Context, order) error { return nil }),
		registry.Avro(fake.r, nil, func(context.Context, any) error { return nil }),
		registry.Avro(fake.r, avro.MustParse(avroReader), func(context.Context, order) error { return nil }),
		registry.JSON(fake.r, func(context.Context, order) error { return nil }),
		registry.Protobuf(fake.r, func(context.Context, *timestamppb.Timestamp) error { return nil }),
		fake.r.Schemas(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })),
	}
	f.Add(byte(idAvro), avroBytes(f, order{ID: "a", Cents: 5}))
	f.Add(byte(idAvroPair), avroBytes(f, order{ID: "a", Cents: 5}))
	f.Add(byte(idList), []byte{2, 2, 0})
	f.Add(byte(idNulls), []byte{4, 0})
	f.Add(byte(idJSON), []byte(`{"id":"a","cents":5,"of":{"currency":"EUR"}}`))
	f.Add(byte(idJSON), []byte(`{"id":"a","cents":1e300}`))
	f.Add(byte(idProto), append([]byte{2, 2}, protoBytes(f, &timestamppb.Timestamp{Seconds: 5})...))
	f.Fuzz(func(t *testing.T, id byte, rest []byte) {
		body := wire(int(id%idFileRef)+1, rest...)
		for i, h := range handlers {
			if err := handle(t, h, body); err != nil && !consumer.IsTerminal(err) {
				t.Fatalf("handler %d: %v", i, err)
			}
		}
	})
}
