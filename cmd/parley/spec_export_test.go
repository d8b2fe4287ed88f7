package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exported asks for an export that must be there, and checks what is true of all of them.
func (p *process) exported(t *testing.T, id, query, contentType string) answer {
	t.Helper()
	a := p.ask(t, "GET", "/conversations/"+id+"/export"+query, nil)
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, contentType, a.header.Get("Content-Type"))
	require.Equal(t, "private, no-store", a.header.Get("Cache-Control"))
	return a
}

func TestSpecExport(t *testing.T) {
	t.Parallel()
	p := content(t)
	const evil = `<script>alert(1)</script> [x](javascript:alert(1)) <img src=x onerror=alert(1)> ![i](http://example.com/i.png) </style>`
	id := p.ask(t, "POST", "/conversations", `{"agentId":"open","userId":"export","title":"Über \"uns\" <b>"}`).fits(201, anyObject).text("conversation", "id")
	p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{
		"message": "say " + evil + "\n\n**bold**", "files": []any{map[string]string{"name": "note<1>.txt", "content": "YQ==", "mimeType": "text/plain"}},
	}).fits(200, anyObject)
	handy := p.newConversation(t, "handy", "export")
	p.say(t, handy, "what time is it")

	t.Run("markdown_is_the_default", func(t *testing.T) {
		a := p.exported(t, id, "", "text/markdown; charset=utf-8")
		require.Equal(t, a.text, p.exported(t, id, "?format=md&tools=0&locale=en&print=0&disposition=attachment", "text/markdown; charset=utf-8").text)
		require.Regexp(t, `^attachment; filename="[ -~]+\.md"; filename\*=UTF-8''%C3%9Cber`, a.header.Get("Content-Disposition"))
		for _, part := range []string{"# Über \"uns\" <b>\n", "- Agent: Open Agent\n", "## User\n", "## Open Agent\n", "say " + evil, "\n" + evil + "\n\n**bold**\n", "- note<1>.txt (text/plain, 1 bytes)\n"} {
			require.Contains(t, a.text, part)
		}
	})
	t.Run("inline_on_demand", func(t *testing.T) {
		require.Regexp(t, `^inline; filename=`, p.exported(t, id, "?disposition=inline", "text/markdown; charset=utf-8").header.Get("Content-Disposition"))
	})
	t.Run("turkish_words", func(t *testing.T) {
		a := p.exported(t, id, "?locale=tr", "text/markdown; charset=utf-8")
		for _, word := range []string{"Kullanıcı", "Ajan: Open Agent", "Dosyalar", "Oluşturulma"} {
			require.Contains(t, a.text, word)
		}
		require.Contains(t, p.exported(t, id, "?locale=tr&format=html", "text/html; charset=utf-8").text, `<html lang="tr">`)
	})
	t.Run("json_is_what_a_read_shows", func(t *testing.T) {
		a := p.exported(t, id, "?format=json", "application/json")
		require.Regexp(t, `\.json"; filename`, a.header.Get("Content-Disposition"))
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
		require.NoError(t, object(fields{
			"conversation": exactly(read.at("conversation").v), "messages": exactly(read.at("messages").v),
		})(decode(t, a.text).v))
	})
	t.Run("html_runs_and_loads_nothing", func(t *testing.T) {
		a := p.exported(t, id, "?format=html", "text/html; charset=utf-8")
		policy := a.header.Get("Content-Security-Policy")
		require.Regexp(t, `^default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox$`, policy)
		require.NotRegexp(t, `(?i)<(script|img|iframe|link|object|form)`, a.text)
		require.NotRegexp(t, `(?i)(href|src)="?\s*javascript|<[^>]*\son\w+=`, a.text)
		require.Contains(t, a.text, "<strong>bold</strong>")
		require.Equal(t, 2, strings.Count(a.text, "&lt;script&gt;alert(1)&lt;/script&gt;"), "of people and of models it is text")
		require.Contains(t, a.text, "<title>Über &#34;uns&#34; &lt;b&gt;</title>")
		require.Contains(t, a.text, "note&lt;1&gt;.txt")
		require.Contains(t, a.text, `<html lang="en">`)
		printed := p.exported(t, id, "?format=html&print=1", "text/html; charset=utf-8")
		require.Contains(t, printed.text, "@page")
		require.NotEqual(t, policy, printed.header.Get("Content-Security-Policy"), "the hash is of its own styles")
	})
	t.Run("tools_on_demand", func(t *testing.T) {
		for format, kind := range map[string]string{"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "json": "application/json"} {
			require.NotContains(t, p.exported(t, handy, "?format="+format, kind).text, "current_time", format)
			require.Contains(t, p.exported(t, handy, "?format="+format+"&tools=1", kind).text, "current_time", format)
		}
	})
	t.Run("export_of_many_pages", func(t *testing.T) {
		long := p.newConversation(t, "open", "export")
		for n := range 105 {
			p.say(t, long, strings.Repeat("x", n+1))
		}
		body := decode(t, p.exported(t, long, "?format=json", "application/json").text)
		require.Len(t, body.at("messages").list(), 210)
		require.Equal(t, 105, strings.Count(p.exported(t, long, "", "text/markdown; charset=utf-8").text, "## User\n"))
	})
	t.Run("empty_conversation_is_exported", func(t *testing.T) {
		empty := p.newConversation(t, "open", "export")
		require.Contains(t, p.exported(t, empty, "", "text/markdown; charset=utf-8").text, "# Conversation\n")
		require.NoError(t, exactly([]any{})(decode(t, p.exported(t, empty, "?format=json", "application/json").text).at("messages").v))
	})
	narrow := p.newConversation(t, "narrow", "export")
	for _, c := range []struct {
		name, id, query string
		status          int
		code            string
	}{
		{"unknown_format", id, "?format=docx", 400, "VALIDATION_ERROR"},
		{"unknown_locale", id, "?locale=de", 400, "VALIDATION_ERROR"},
		{"unknown_tools", id, "?tools=yes", 400, "VALIDATION_ERROR"},
		{"unknown_disposition", id, "?disposition=none", 400, "VALIDATION_ERROR"},
		{"tools_without_permission", narrow, "?tools=1", 403, "export_disabled"},
		{"format_without_permission", narrow, "?format=html", 403, "export_disabled"},
		{"pdf_without_permission", narrow, "?format=pdf", 403, "export_disabled"},
		{"pdf_without_a_renderer", id, "?format=pdf", 501, "export_format_unsupported"},
		{"unknown_conversation", "conv_AAAAAAAAAAAAAAAAAAAAA", "", 404, "NOT_FOUND"},
	} {
		t.Run("export_"+c.name, func(t *testing.T) {
			p.ask(t, "GET", "/conversations/"+c.id+"/export"+c.query, nil).refused(c.status, c.code)
		})
	}
}

func TestSpecExportPDF(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	p := newProcess(t, "export: {chromium: "+browser+"}\n"+contentAgents())
	p.start()
	id := p.newConversation(t, "open", "pdf")
	p.say(t, id, "say **all is well**")
	t.Run("pdf_is_a_document", func(t *testing.T) {
		a := p.exported(t, id, "?format=pdf", "application/pdf")
		require.Regexp(t, `^attachment; filename="say all is well\.pdf"$`, a.header.Get("Content-Disposition"))
		require.True(t, strings.HasPrefix(a.text, "%PDF-"))
		require.Contains(t, a.text[max(0, len(a.text)-64):], "%%EOF")
	})
}
