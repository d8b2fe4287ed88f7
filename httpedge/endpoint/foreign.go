package endpoint

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/site"
	"parley/proto/failurepb"
)

// foreign says why a request is not taken of the browser that sent it, "" = it is. A name of the server is checked where the
// request came over loopback, or names are configured: a server that is reached from elsewhere has names that it does not know.
func (m *Mux) foreign(rc *fasthttp.RequestCtx) *failure.Failure {
	if m.config.Site == nil {
		return nil
	}
	policy := *m.config.Site
	policy.AnyHost = len(policy.Hosts) == 0 && !site.Loopback(rc.LocalAddr())
	return policy.Refuse(siteRequest(rc))
}

func siteRequest(rc *fasthttp.RequestCtx) site.Request {
	header := &rc.Request.Header
	return site.Request{
		Method: string(rc.Method()), Host: string(header.Host()), Origin: string(header.Peek(fasthttp.HeaderOrigin)),
		FetchSite: string(header.Peek("Sec-Fetch-Site")), FetchMode: string(header.Peek("Sec-Fetch-Mode")),
		FetchDest: string(header.Peek("Sec-Fetch-Dest")),
	}
}

// checkJSON refuses a body that a browser sends without saying that it is JSON: it asks nobody before it sends one of those few
// other types to another site. Whoever sends it otherwise need not say so (document 2: a request without a type is JSON).
func (x *exchange) checkJSON(body []byte) *machine.Failure {
	if len(body) == 0 || x.mux.config.Site == nil || !siteRequest(x.rc).Browser() {
		return nil
	}
	kind, _, err := mime.ParseMediaType(string(x.rc.Request.Header.ContentType()))
	if err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return failure.New(failurepb.Code_VALIDATION, failure.ContentTypeNotJSON)
}
