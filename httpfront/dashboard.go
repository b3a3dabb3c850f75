package httpfront

import (
	"bytes"
	"embed"
	"mime"
	"path"
	"strings"
)

// assets are the files of the dashboard. It is part of the binary and loads nothing from elsewhere (operations 8).
//
//go:embed dashboard
var assets embed.FS

// startPage answers every path of the dashboard that is no asset: its pages are drawn in the browser.
const startPage = "index.html"

// isAPI tells the paths whose unknown members are a 404 with the path in it.
func isAPI(rawPath []byte) bool {
	return bytes.HasPrefix(rawPath, []byte("/api/")) || bytes.HasPrefix(rawPath, []byte("/streams/"))
}

// isDashboard reports whether a request that no route takes is one for the dashboard (messaging 2.3).
func isDashboard(method string, rawPath []byte) bool {
	return (method == "GET" || method == "HEAD") && !isAPI(rawPath) && !bytes.HasPrefix(rawPath, []byte("/auth/"))
}

// serveDashboard answers with an asset, else with the start page.
func serveDashboard(r *Request) {
	rawPath, _ := splitTarget(r.Ctx.Request.Header.RequestURI())
	name := strings.TrimPrefix(string(rawPath), "/")
	// Names that are not clean, such as those with .., are refused by the embedded file system itself.
	content, err := assets.ReadFile("dashboard/" + name)
	if err != nil {
		name = startPage
		if content, err = assets.ReadFile("dashboard/" + startPage); err != nil {
			panic("BUG: the dashboard has no start page: " + err.Error())
		}
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	r.Ctx.SetStatusCode(200)
	r.Ctx.Response.Header.SetContentType(kind)
	r.Ctx.Response.Header.Set("Cache-Control", "no-cache")
	r.Ctx.Response.SetBodyRaw(content)
}
