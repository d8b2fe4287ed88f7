package convapi_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

func withExports(k *kit) {
	k.agents = append(endpointtest.Agents{
		{Id: "open", Name: "Open", Experience: &agentpb.Experience{
			ExportEnabled: true, ExportIncludeTools: true, ExportFormats: []string{"md", "json", "html", "pdf"},
		}},
		{Id: "few", Name: "Few", Experience: &agentpb.Experience{ExportEnabled: true, ExportFormats: []string{"md"}}},
	}, k.agents...)
	k.config.MessagePage = 10
}

// exported is a conversation of several pages, with a tool call.
func exported(id, agent string) *endpointtest.Conversation {
	talk := endpointtest.Talk(id, "", 25)
	talk.State.AgentId, talk.State.Title = agent, "Über Wetter"
	talk.Messages[1].ToolCalls = []*conversationpb.ToolCall{{Id: "c", Name: "secret_tool", Arguments: `{}`, Result: "secret"}}
	return talk
}

// copier is a Printer that makes the page itself its PDF.
type copier struct{ err error }

func (c copier) PDF(_ context.Context, html io.Reader, out io.Writer) error {
	if c.err != nil {
		return c.err
	}
	_, err := io.Copy(out, html)
	return err
}

func TestExportFormats(t *testing.T) {
	k := serve(t, withExports, func(k *kit) { k.pdf = copier{} })
	k.store.Put(exported(conv1, "open"))
	path := "/conversations/" + conv1 + "/export"
	cases := []struct {
		query, contentType, disposition string
		has, lacks                      []string
	}{
		{
			"", "text/markdown; charset=utf-8", `attachment; filename="_ber Wetter.md"; filename*=UTF-8''%C3%9Cber%20Wetter.md`,
			[]string{"# Über Wetter", "## User", "message 1\n", "message 25\n"},
			[]string{"secret"},
		},
		{
			"?format=md&tools=1&locale=tr&disposition=inline", "text/markdown; charset=utf-8",
			`inline; filename="_ber Wetter.md"; filename*=UTF-8''%C3%9Cber%20Wetter.md`,
			[]string{"## Kullanıcı", "secret"},
			nil,
		},
		{
			"?format=html", "text/html; charset=utf-8", `attachment; filename="_ber Wetter.html"; filename*=UTF-8''%C3%9Cber%20Wetter.html`,
			[]string{"<!doctype html>", "message 25</div>"},
			[]string{"secret", "@page", "<script"},
		},
		{
			"?format=html&print=1", "text/html; charset=utf-8", `attachment; filename="_ber Wetter.html"; filename*=UTF-8''%C3%9Cber%20Wetter.html`,
			[]string{"@page"},
			[]string{"<script"},
		},
		{
			"?format=pdf", "application/pdf", `attachment; filename="_ber Wetter.pdf"; filename*=UTF-8''%C3%9Cber%20Wetter.pdf`,
			[]string{"@page", "message 25"},
			[]string{"secret"},
		},
		{
			"?format=json", "application/json", `attachment; filename="_ber Wetter.json"; filename*=UTF-8''%C3%9Cber%20Wetter.json`,
			[]string{`"messages":[`},
			[]string{"secret"},
		},
		{
			"?format=json&tools=1", "application/json", `attachment; filename="_ber Wetter.json"; filename*=UTF-8''%C3%9Cber%20Wetter.json`,
			[]string{"secret"},
			nil,
		},
	}
	for _, c := range cases {
		t.Run(c.query, func(t *testing.T) {
			inner := *k
			inner.t = t
			r := inner.do("GET", path+c.query, "")
			require.Equal(t, 200, r.status, "%s", r.raw)
			require.Equal(t, c.contentType, r.header.Get("Content-Type"))
			require.Equal(t, c.disposition, r.header.Get("Content-Disposition"))
			require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
			require.Equal(t, "private, no-store", r.header.Get("Cache-Control"))
			require.Equal(t, strings.Contains(c.query, "html"), r.header.Get("Content-Security-Policy") != "")
			for _, text := range c.has {
				require.Contains(t, string(r.raw), text)
			}
			for _, text := range c.lacks {
				require.NotContains(t, string(r.raw), text)
			}
			require.Equal(t, "secret", exportedCall(t, k), "what is stored is not touched")
		})
	}
	whole := k.do("GET", path+"?format=json&tools=1", "")
	read := k.do("GET", "/conversations/"+conv1+"?limit=200", "")
	require.Equal(t, read.at(t, "conversation"), whole.at(t, "conversation"), "the forms of the other routes")
	require.Equal(t, read.at(t, "messages"), whole.at(t, "messages"))
}

func exportedCall(t *testing.T, k *kit) string {
	t.Helper()
	view, err := k.store.Message(t.Context(), &nodepb.MessageQuery{Id: conv1, MessageId: "msg_000000000000000000002"})
	require.NoError(t, err)
	return view.Message.GetToolCalls()[0].GetResult()
}

func TestExportRefusals(t *testing.T) {
	k := serve(t, withExports)
	k.store.Put(exported(conv1, "open"))
	k.store.Put(exported(conv2, "few"))
	k.store.Put(exported("conv_strict", "strict"))
	k.store.Put(exported("conv_plain", "plain"))
	k.store.Put(exported("conv_orphan", "no more"))
	foreign := exported("conv_foreign", "open")
	foreign.State.TenantId = "other"
	k.store.Put(foreign)
	for _, c := range []struct {
		status     int
		code, path string
	}{
		{400, "VALIDATION_ERROR", conv1 + "/export?format=docx"},
		{400, "VALIDATION_ERROR", conv1 + "/export?locale=de"},
		{400, "VALIDATION_ERROR", conv1 + "/export?tools=yes"},
		{400, "VALIDATION_ERROR", conv1 + "/export?print=2"},
		{400, "VALIDATION_ERROR", conv1 + "/export?disposition=form-data"},
		{501, "export_format_unsupported", conv1 + "/export?format=pdf"},
		{403, "export_disabled", conv2 + "/export?format=html"},
		{403, "export_disabled", conv2 + "/export?format=pdf"},
		{403, "export_disabled", conv2 + "/export?tools=1"},
		{403, "export_disabled", "conv_strict/export"},
		{403, "export_disabled", "conv_plain/export"},
		{403, "export_disabled", "conv_orphan/export?tools=1"},
		{404, "NOT_FOUND", gone + "/export"},
		{404, "NOT_FOUND", "a%2Fb/export"},
		{404, "NOT_FOUND", "conv_foreign/export"},
	} {
		r := k.refused(c.status, c.code, "GET", "/conversations/"+c.path, "")
		require.Empty(t, r.header.Get("Content-Disposition"))
	}
	require.Equal(t, 200, k.do("GET", "/conversations/"+conv2+"/export", "").status)
	// What its agent left behind is still the user's.
	for _, format := range []string{"md", "json", "html"} {
		r := k.do("GET", "/conversations/conv_orphan/export?format="+format, "")
		require.Equal(t, 200, r.status, "%s", r.raw)
		require.NotEmpty(t, r.raw)
	}
}

func TestExportIsItsOwners(t *testing.T) {
	k := serve(t, withExports, withAuth)
	talk := exported(conv1, "open")
	talk.State.UserId = "ann"
	k.store.Put(talk)
	require.Equal(t, 200, k.do("GET", "/conversations/"+conv1+"/export", "", "Authorization", "Bearer ann").status)
	k.refused(403, "FORBIDDEN", "GET", "/conversations/"+conv1+"/export", "", "Authorization", "Bearer bob")
}

func TestPDFThatFails(t *testing.T) {
	k := serve(t, withExports, func(k *kit) { k.pdf = copier{fail(failurepb.Code_UNAVAILABLE, "no room")} })
	k.store.Put(exported(conv1, "open"))
	k.refused(503, "unavailable", "GET", "/conversations/"+conv1+"/export?format=pdf", "")
}

func TestExportOfNothing(t *testing.T) {
	k := serve(t, withExports)
	talk := endpointtest.Talk(conv1, "", 0)
	talk.State.AgentId = "open"
	k.store.Put(talk)
	r := k.do("GET", "/conversations/"+conv1+"/export?format=json", "")
	require.True(t, json.Valid(r.raw))
	require.Empty(t, r.at(t, "messages"))
	require.Contains(t, k.do("GET", "/conversations/"+conv1+"/export", "").header.Get("Content-Disposition"), "conversation.md")
}

// TestExportOfWhatChanges: an export is never a mixture of before and after; what is merely added is left out.
func TestExportOfWhatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		rewritten uint64
		status    int
	}{"added": {0, 200}, "replaced": {26, 503}} {
		t.Run(name, func(t *testing.T) {
			k := serve(t, withExports, func(k *kit) {
				k.pdf = meddler{func() {
					longer := endpointtest.Talk(conv1, "", 40)
					longer.State.Rewritten = c.rewritten
					k.store.Put(longer)
				}}
			})
			k.store.Put(exported(conv1, "open"))
			r := k.do("GET", "/conversations/"+conv1+"/export?format=pdf", "")
			require.Equal(t, c.status, r.status, "%s", r.raw)
			require.NotContains(t, string(r.raw), "message 26")
			require.Equal(t, c.status == 200, strings.Contains(string(r.raw), "message 25"))
		})
	}
}

// meddler is a copier that changes the conversation half way.
type meddler struct{ change func() }

func (m meddler) PDF(ctx context.Context, html io.Reader, out io.Writer) error {
	if _, err := io.CopyN(out, html, 1000); err != nil {
		return err
	}
	m.change()
	return copier{}.PDF(ctx, html, out)
}
