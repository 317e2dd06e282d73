package routers

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Echo makes an echo middleware of the middleware of httpkey.New, to stand at a route. What it makes may serve concurrently.
//
// echo's pattern is put where the middleware looks for it. A handler's error is answered inside of the middleware (Context.Error): an
// error that echo would answer later would be kept as an empty success, which is why echo.WrapMiddleware is not enough.
func Echo(once func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			outer := c.Response()
			c.Request().Pattern = c.Path()
			once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				if err := next(c); err != nil {
					c.Error(err)
				}
			})).ServeHTTP(outer, c.Request())
			c.SetResponse(outer)
			return nil
		}
	}
}
