// Package browser tests the pages of package web in a real browser: each page and each act, with JavaScript and without it, in light
// and dark, wide and narrow, for what axe-core finds. It makes the pictures of docs/web.md:
//
//	cd integration/browser && ACKLEDGER_PICTURES=../../docs/web go test ./...
//
// Without Chromium or npm its tests skip, and say so. It is a module of its own, so that nobody who imports the library gets a browser's
// driver.
package browser
