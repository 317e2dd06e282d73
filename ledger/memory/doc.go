// Package memory is a ledger in one process' memory: the reference model of the contract, and the fake with which
// programs test their handlers. It forgets everything when the process ends, so it is no ledger for production.
//
//	l := memory.New()
//	worker, err := l.Join(ctx, 30*time.Second)
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	claims, err := worker.Claim(ctx, []ledger.Entry{{
//		Key: ledger.Key{Scope: "orders", ID: []byte("7")}, Delivery: []byte("copy 1"), Window: time.Hour,
//	}})
//	fmt.Println(claims[0].Answer, err)
//
// It is the reference of [driver.Store], too: what decides stands in package driver, and what is here holds rows under one
// lock, so row 2 of the claim table (a row locked or unseen) cannot occur. Its clock can be given ([WithClock]), and faults can be injected: an error instead
// of a call ([Ledger.FailBefore]), or instead of the answer of a call that was carried out ([Ledger.FailAfter]).
//
// Records of a log are held in ranges, as in the other stores.
//
// It does not grow for ever: each claim also looks at a few rows and drops what is past its expiry. Owners that left or died
// go with a sweep.
package memory
