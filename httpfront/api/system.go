package api

import "queen/httpfront"

// ofNode is a handler of an administration route: they are the node's, so a request in the name of a tenant is refused
// (cluster 7.4).
func ofNode(handle handler) handler {
	return func(r *httpfront.Request) error {
		if r.NamesTenant() {
			return httpfront.Refuse(httpfront.CodeForbidden, "administration routes are not for tenants")
		}
		return handle(r)
	}
}

// settings shows what this node runs with (cluster 1.1.8).
func (a *API) settings(r *httpfront.Request) error {
	return answerJSON(r, 200, struct {
		Settings any `json:"settings"`
	}{a.config.Settings})
}
