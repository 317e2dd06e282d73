// Package wire lets things go wrong between clients and a server: answers come late or never, connections end in the middle
// of a statement, arrive in pieces, or are cut.
//
//	p, err := wire.New(server.Listener.Addr().String())
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer p.Close()
//
//	p.Set(wire.Fault{}, wire.Fault{Lose: true})
//	client := http.Client{Timeout: 500 * time.Millisecond}
//	resp, err := client.Get("http://" + p.Addr())
//
// It is a proxy of toxiproxy (https://github.com/Shopify/toxiproxy) with one toxic of its own on each direction, from the
// start, that does whatever is asked of it. Toxiproxy's own toxics must not be put on and taken off while connections are
// open: it holds a lock while it waits for a connection's goroutine, and that one waits for the lock if its connection has
// ended just then.
package wire
