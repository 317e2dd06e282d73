package routers

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin makes a gin handler of the middleware of httpkey.New, to stand before a route's own handler. What it makes may serve concurrently.
//
// gin's pattern is put where the middleware looks for it. The handlers behind it write to the middleware's writer, and do not run if it
// answers itself.
func Gin(once func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer := c.Writer
		c.Request.Pattern = c.FullPath()
		once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner := &ginWriter{ResponseWriter: outer, w: w, status: http.StatusOK, size: -1}
			c.Request, c.Writer = r, inner
			c.Next()
			inner.WriteHeaderNow()
		})).ServeHTTP(outer, c.Request)
		c.Writer = outer
		c.Abort()
	}
}

// ginWriter is the middleware's writer as gin wants it: the status is sent with the first byte, and the size counted.
type ginWriter struct {
	gin.ResponseWriter // what is not said below: CloseNotify, Pusher
	w                  http.ResponseWriter
	status, size       int
}

func (g *ginWriter) Header() http.Header         { return g.w.Header() }
func (g *ginWriter) Unwrap() http.ResponseWriter { return g.w }
func (g *ginWriter) Status() int                 { return g.status }
func (g *ginWriter) Size() int                   { return g.size }
func (g *ginWriter) Written() bool               { return g.size >= 0 }

func (g *ginWriter) WriteHeader(status int) {
	if !g.Written() && status > 0 {
		g.status = status
	}
}

func (g *ginWriter) WriteHeaderNow() {
	if !g.Written() {
		g.size = 0
		g.w.WriteHeader(g.status)
	}
}

func (g *ginWriter) Write(p []byte) (int, error) {
	g.WriteHeaderNow()
	n, err := g.w.Write(p)
	g.size += n
	return n, err
}

func (g *ginWriter) WriteString(s string) (int, error) { return g.Write([]byte(s)) }

func (g *ginWriter) Flush() {
	g.WriteHeaderNow()
	_ = http.NewResponseController(g.w).Flush() // gin's Flush has no error; the next Write has it
}

func (g *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	g.size = max(g.size, 0)
	return http.NewResponseController(g.w).Hijack()
}
