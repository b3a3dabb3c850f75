package httpfront

import (
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// tenantHeader names the tenant of a request behind a trusted proxy (messaging 2.5).
const tenantHeader = "X-Queen-Tenant"

// errTenant is the refusal of a tenant header that is not a UUID.
var errTenant = RefuseStatus(fasthttp.StatusBadRequest, "invalid x-queen-tenant header (must be a UUID)")

// tenantOf reads the tenant of a request. The header counts only when tenancy is on.
func tenantOf(header *fasthttp.RequestHeader, tenancy bool) (uuid.UUID, *Error) {
	if !tenancy {
		return command.DefaultTenant, nil
	}
	raw := header.Peek(tenantHeader)
	if raw == nil {
		return command.DefaultTenant, nil
	}
	tenant, ok := wire.ParseUUID(raw)
	if !ok {
		return uuid.Nil, errTenant
	}
	return tenant, nil
}

// NamesTenant tells whether the request carries the tenant header, be it read or not.
func (r *Request) NamesTenant() bool { return r.Ctx.Request.Header.Peek(tenantHeader) != nil }
