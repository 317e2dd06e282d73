package web

import (
	"bytes"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/operate"
	"github.com/ackledger/ackledger/ledger"
)

//go:embed pages
var sources embed.FS

// page is what a template shows.
type page struct {
	Name    string // of the template
	Title   string
	Live    string // where its live part comes from; empty: it has none
	Refresh int    // seconds after which a browser without JavaScript asks again; 0: never
	Data    any

	v *visit
}

// Can says whether the viewer may do something.
func (p *page) Can(a Action, scope string) bool { return p.v.can(a, scope) }

// Write says whether anything can be changed.
func (p *page) Write() bool { return p.v.o.Write }

// Doctor says whether there is one.
func (p *page) Doctor() bool { return p.v.o.Doctor != nil }

// Target says whether dead letters can be sent.
func (p *page) Target() bool { return p.v.o.Target != nil }

// Actor is who looks.
func (p *page) Actor() string {
	if p.v.o.Actor == nil {
		return ""
	}
	return operate.Text(p.v.o.Actor(p.v.r))
}

var templates = parse()

func parse() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(funcs).ParseFS(sources, "pages/layout.html", "pages/part_*.html"))
	all := map[string]*template.Template{}
	entries, err := sources.ReadDir("pages")
	if err != nil {
		panic(err) // they are in the program
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if name != "layout" && !strings.HasPrefix(name, "part_") {
			all[name] = template.Must(template.Must(base.Clone()).ParseFS(sources, "pages/"+e.Name()))
		}
	}
	return all
}

var funcs = template.FuncMap{
	"count": func(n any) string { return operate.Count(toInt(n)) },
	"short": operate.Short,
	"size":  func(n any) string { return operate.Size(toInt(n)) },
	"group": func(g *group) string {
		return "dead?" + url.Values{"scope": {g.Scope}, "kind": {g.Kind}, "error": {g.Example}}.Encode()
	},
	"text": plain,
	"age": func(d time.Duration) string {
		if d == 0 {
			return "–"
		}
		return operate.Short(d)
	},
	"lines": operate.Safe,
	"stamp": func(t time.Time) template.HTML {
		if t.IsZero() {
			return "–"
		}
		u := t.UTC()
		return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, u.Format("2006-01-02T15:04:05.000Z"), u.Format("2006-01-02 15:04:05Z")))
	},
	"state":  stateText,
	"due":    parkedDue,
	"of":     messageLink,
	"letter": func(d *ledger.DeadLetter) string { return messageLink(d.Key.Scope, d.Key.ID, d.Key.Sum()) },
	"escape": url.QueryEscape, // what a field of a form could change on its way
	"link":   func(page, name, value string) string { return page + "?" + url.Values{name: {value}}.Encode() },
	"to": func(page, query string) string {
		switch {
		case query == "":
			return page
		case strings.Contains(page, "?"):
			return page + "&" + query
		}
		return page + "?" + query
	},
	"last": func(list []ledger.AttemptError) string {
		if len(list) == 0 {
			return ""
		}
		return cut(plain(list[len(list)-1].Error), 120)
	},
	"bars": bars,
	"rate": func(f float64) string {
		if f > 0 && f < 10 {
			return fmt.Sprintf("%.1f/s", f)
		}
		return operate.Count(int64(f+.5)) + "/s"
	},
}

// plain makes names and texts of others printable.
func plain(s any) string {
	switch s := s.(type) {
	case []byte:
		return operate.Text(string(s))
	case string:
		return operate.Text(s)
	case ledger.FailureKind:
		return operate.Text(string(s))
	}
	return operate.Text(fmt.Sprint(s))
}

func toInt(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	}
	return 0
}

// cut shortens a text for a line of a table.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

func stateText(s ledger.State) string {
	if s == 0 {
		return "gone"
	}
	return s.String()
}

// messageQuery names a message. Names are bytes: they go in URLs, where each has a form, and not in fields of forms.
func messageQuery(scope string, id []byte, sum [ledger.KeySize]byte) url.Values {
	return url.Values{"scope": {scope}, "id": {string(id)}, "key": {hex.EncodeToString(sum[:])}}
}

func messageLink(scope string, id []byte, sum [ledger.KeySize]byte) string {
	return "message?" + messageQuery(scope, id, sum).Encode()
}

// bars draws numbers as a picture without style: rectangles of an SVG.
func bars(label string, values []float64) template.HTML {
	const width, height = 240, 32
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %d %d" role="img" aria-label="%s" preserveAspectRatio="none">`, width, height, template.HTMLEscapeString(label))
	step := float64(width) / float64(max(len(values), 1))
	for i, v := range values {
		if v <= 0 || top == 0 {
			continue
		}
		h := max(v/top*(height-1), 1)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, float64(i)*step, height-h, max(step-1, .5), h)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// show answers with a page.
func (v *visit) show(p *page) error { return v.render(http.StatusOK, p) }

func (v *visit) render(status int, p *page) error {
	p.v = v
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "layout.html", p); err != nil {
		return fmt.Errorf("web: page %s: %w", p.Name, err)
	}
	v.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.WriteHeader(status)
	if v.r.Method == http.MethodHead {
		return nil
	}
	if _, err := v.Write(b.Bytes()); err != nil {
		v.o.Logger.Debug("web: a viewer is gone", zap.Error(err)) // the head is sent: nothing else can be
	}
	return nil
}

// part renders the live part of a page.
func (v *visit) part(p *page) ([]byte, error) {
	p.v = v
	var b bytes.Buffer
	err := templates[p.Name].ExecuteTemplate(&b, "live", p)
	return b.Bytes(), err
}
