// Package web is a page on which people see how workers and their ledger do, and act on it: one http.Handler, to mount under any
// prefix behind a login of one's own.
//
//	mayDo := func(r *http.Request, a web.Action, scope string) error {
//		if a == web.Read || login(r) == "alex" {
//			return nil
//		}
//		return errors.New("ask the operators")
//	}
//	pages, err := web.Handler(l, web.Options{Write: true, Authorize: mayDo, Actor: login})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer pages.Close()
//	mux.Handle("/ackledger/", requireLogin(pages))
//
// The pages are HTML that the server renders, and work without JavaScript; with it they are live. Everything that they need is in
// the program. They can stand beside tables of any size: each read has a deadline, lists come in pages by the key of an index, and
// what reads a whole table is a job that people begin, watch and stop, one of its kind at a time.
//
// What can be done is what the command ackledger does, through the same calls of package ledger and package replay; each act is in
// the audit with its actor. Without [Options.Write] nothing can be changed, and without [Options.Authorize] no body can be seen.
//
// There is no session and no cookie here: who somebody is and what that person may do, the program says that mounts the handler.
// Every act is a POST that http.CrossOriginProtection lets through.
package web
