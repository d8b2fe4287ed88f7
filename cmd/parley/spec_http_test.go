package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// routesWithID are the routes that name a conversation.
func routesWithID() []struct{ method, suffix, body string } {
	return []struct{ method, suffix, body string }{
		{"GET", "", ""},
		{"PATCH", "", `{"title":"x"}`},
		{"DELETE", "", ""},
		{"GET", "/messages", ""},
		{"POST", "/messages", `{"message":"x"}`},
		{"POST", "/messages", `{"message":"x","stream":true}`},
		{"POST", "/cancel", ""},
		{"GET", "/events", ""},
		{"GET", "/events/stream", ""},
		{"POST", "/actions/act_AAAAAAAAAAAAAAAAAAAAA", `{"resolution":{"type":"tool_approval","decision":"allow"}}`},
		{"POST", "/actions/act_AAAAAAAAAAAAAAAAAAAAA", `{"resolution":{"type":"tool_approval","decision":"allow"},"stream":true}`},
		{"POST", "/continue", ""},
		{"POST", "/continue", `{"stream":true}`},
		{"GET", "/remembered-tools", ""},
		{"DELETE", "/remembered-tools/a/b", ""},
		{"POST", "/messages/msg_AAAAAAAAAAAAAAAAAAAAA/regenerate", ""},
		{"POST", "/messages/msg_AAAAAAAAAAAAAAAAAAAAA/edit", `{"content":"x"}`},
		{"POST", "/messages/msg_AAAAAAAAAAAAAAAAAAAAA/feedback", `{"rating":"up"}`},
		{"GET", "/files", ""},
		{"GET", "/export", ""},
	}
}

func TestSpecRoutes(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "quick", "routes")
	t.Run("unknown_conversation_is_404_on_every_route", func(t *testing.T) {
		for _, unknown := range []string{
			"conv_AAAAAAAAAAAAAAAAAAAAA", "x", "msg_AAAAAAAAAAAAAAAAAAAAA", id + "x", id[:len(id)-1], strings.ToUpper(id), "%20", "a%2Fb",
			"%F0%9F%98%80", "-", strings.Repeat("a", 64), strings.Repeat("a", 1000), "..%2F..", "null", "0",
		} {
			for _, route := range routesWithID() {
				var body any
				if route.body != "" {
					body = route.body
				}
				require.Nil(t, p.ask(t, route.method, "/conversations/"+unknown+route.suffix, body).refused(404, "NOT_FOUND").v, "no details")
			}
		}
	})
	t.Run("id_that_is_not_utf8_is_400", func(t *testing.T) {
		for _, route := range routesWithID() {
			p.ask(t, route.method, "/conversations/%ff"+route.suffix, `{"message":"x"}`).refused(400, "VALIDATION_ERROR")
		}
	})
	t.Run("control_character_in_an_id_is_400", func(t *testing.T) {
		for _, route := range routesWithID() {
			for _, control := range []string{"%00", "%0a", "%7f", "%c2%9b"} {
				p.ask(t, route.method, "/conversations/"+id+control+route.suffix, `{"message":"x"}`).refused(400, "VALIDATION_ERROR")
			}
		}
	})
	t.Run("wrong_method_is_405", func(t *testing.T) {
		for path, allowed := range map[string]string{
			"/agents": "GET, HEAD", "/agents/quick": "GET, HEAD", "/conversations": "GET, HEAD, POST", "/conversations/" + id: "DELETE, GET, HEAD, PATCH",
			"/conversations/" + id + "/messages": "GET, HEAD, POST", "/conversations/" + id + "/cancel": "POST", "/conversations/" + id + "/events": "GET, HEAD",
			"/conversations/" + id + "/events/stream": "GET", "/docs": "GET, HEAD", "/docs/openapi.json": "GET, HEAD",
		} {
			for _, method := range []string{"PUT", "OPTIONS", "TRACE", "BREW"} {
				a := p.ask(t, method, path, nil)
				a.refused(405, "method_not_allowed")
				require.Equal(t, allowed, a.header.Get("Allow"), path)
				require.Contains(t, a.said(), method)
			}
		}
		p.ask(t, "DELETE", "/agents", nil).refused(405, "method_not_allowed")
		p.ask(t, "GET", "/conversations/"+id+"/cancel", nil).refused(405, "method_not_allowed")
		p.ask(t, "POST", "/conversations/"+id, `{}`).refused(405, "method_not_allowed")
	})
	t.Run("unknown_route_is_404", func(t *testing.T) {
		for _, path := range []string{
			"", "/nothing", "/Agents", "/agents/quick/x", "/conversations/" + id + "/nothing", "/conversations/" + id + "/messages/msg_x",
			"//agents", "/./agents", "/agents/../agents", "/%61gents",
		} {
			a := p.ask(t, "GET", path, nil)
			a.refused(404, "NOT_FOUND")
			require.Equal(t, "Route not found: GET /api/agents"+path, a.said())
		}
		signedIn := p.ask(t, "GET", "http://"+p.listen+"/api/other", nil) // below /api is what people with a browser session use, in its own words
		require.Equal(t, 404, signedIn.status)
		require.Contains(t, signedIn.text, `"code":"not_found"`)
		p.ask(t, "GET", "http://"+p.listen+"/agents", nil).refused(404, "NOT_FOUND")
	})
	t.Run("trailing_slash_is_another_route", func(t *testing.T) {
		for _, path := range []string{"/", "/agents/", "/conversations/", "/conversations/" + id + "/", "/conversations/" + id + "/messages/", "/docs/"} {
			p.ask(t, "GET", path, nil).refused(404, "NOT_FOUND")
		}
	})
	t.Run("head_is_get_without_the_body", func(t *testing.T) {
		for _, path := range []string{"/agents", "/conversations/" + id, "/conversations/" + id + "/events", "/conversations?userId=routes", "/docs"} {
			head, get := p.ask(t, "HEAD", path, nil), p.ask(t, "GET", path, nil)
			head.empty(200)
			require.Equal(t, get.header.Get("Content-Length"), head.header.Get("Content-Length"), path)
			require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
		}
		p.ask(t, "HEAD", "/conversations/conv_AAAAAAAAAAAAAAAAAAAAA", nil).empty(404)
	})
	t.Run("escaped_id_is_the_id", func(t *testing.T) {
		p.ask(t, "GET", "/conversations/"+strings.Replace(id, "_", "%5F", 1), nil).fits(200, anyObject)
	})
}

func TestSpecHeaders(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "quick", "headers")
	t.Run("request_id_comes_back", func(t *testing.T) {
		for _, given := range []string{"a", "job-7/step.2:x+y=z@host", strings.Repeat("i", 128)} {
			for _, path := range []string{"/agents", "/nothing", "/conversations/x", "/docs", "/conversations/" + id + "/events?after=x"} {
				require.Equal(t, given, p.ask(t, "GET", path, nil, "X-Request-Id", given).header.Get("X-Request-Id"), path)
			}
			s := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil, "X-Request-Id", given)
			require.Equal(t, given, s.header.Get("X-Request-Id"))
		}
	})
	t.Run("bad_request_id_is_replaced", func(t *testing.T) {
		for _, given := range []string{"with space", "quo\"te", "é", strings.Repeat("i", 129), "<script>"} {
			made := p.ask(t, "GET", "/agents", nil, "X-Request-Id", given).header.Get("X-Request-Id")
			require.NotEqual(t, given, made)
			require.Regexp(t, `^req_\w+$`, made)
		}
	})
	t.Run("made_request_ids_differ", func(t *testing.T) {
		seen := map[string]bool{}
		for range 20 {
			seen[p.ask(t, "GET", "/agents", nil).header.Get("X-Request-Id")] = true
		}
		require.Len(t, seen, 20)
	})
	t.Run("node_is_named", func(t *testing.T) {
		for _, path := range []string{"/agents", "/nothing", "/docs"} {
			require.Equal(t, "spec-1", p.ask(t, "GET", path, nil).header.Get("X-Served-By"))
		}
	})
	t.Run("no_cors_unless_configured", func(t *testing.T) {
		a := p.ask(t, "GET", "/agents", nil, "Origin", "https://evil.example")
		for name := range a.header {
			require.NotContains(t, name, "Access-Control")
		}
		p.ask(t, "OPTIONS", "/agents", nil, "Origin", "https://evil.example", "Access-Control-Request-Method", "GET").refused(405, "method_not_allowed")
	})
}

func TestSpecBadBodies(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "quick", "bad bodies")
	before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	routes := map[string]string{
		"/conversations": "POST", "/conversations/" + id: "PATCH", "/conversations/bulk-delete": "POST", "/conversations/" + id + "/messages": "POST",
	}
	for name, body := range map[string]string{
		"cut_off": `{"message":"x"`, "no_json": `message=x`, "two_values": `{} {}`, "trailing_comma": `{"message":"x",}`, "single_quotes": `{'message':'x'}`,
		"a_list": `[]`, "a_text": `"x"`, "a_number": `5`, "null": `null`, "true": `true`, "a_comment": `{/**/}`, "bad_escape": `{"message":"\q"}`,
		"raw_control": "{\"message\":\"a\nb\"}", "not_utf8": "{\"x\":\"\xff\xfe\"}", "utf16": "\xff\xfe{\x00}\x00", "nul": "\x00",
		"too_deep": strings.Repeat(`{"x":`, 65) + "1" + strings.Repeat("}", 65), "endless_depth": strings.Repeat("[", 100_000),
		"bad_number": `{"x":01}`, "not_a_number": `{"x":NaN}`, "byte_order_mark": "\xef\xbb\xbf{}",
	} {
		t.Run("body_"+name+"_is_400", func(t *testing.T) {
			for path, method := range routes {
				p.ask(t, method, path, body).refused(400, "VALIDATION_ERROR")
			}
			require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v)
		})
	}
	t.Run("depth_64_is_taken", func(t *testing.T) {
		deep := strings.Repeat(`{"x":`, 62) + "{}" + strings.Repeat("}", 62) // 63 levels in a body, with the body 64
		p.ask(t, "POST", "/conversations", `{"agentId":"quick","metadata":`+deep+`}`).fits(201, anyObject)
	})
	t.Run("body_over_1_mib_is_413", func(t *testing.T) {
		for path, method := range routes {
			if strings.HasSuffix(path, "/messages") {
				continue // it may bring files
			}
			p.ask(t, method, path, `{"message":"`+strings.Repeat("x", 1<<20)+`"}`).refused(413, "too_large")
		}
	})
	t.Run("content_type_does_not_matter", func(t *testing.T) {
		for _, kind := range []string{"application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "nonsense"} {
			p.ask(t, "POST", "/conversations", `{"agentId":"quick"}`, "Content-Type", kind).fits(201, anyObject)
		}
	})
	t.Run("body_of_a_get_is_not_looked_at", func(t *testing.T) {
		p.ask(t, "GET", "/agents", "{broken", "Content-Type", "application/json").fits(200, anyObject)
	})
}

// send writes bytes to a new connection and returns the first answer.
func send(t *testing.T, p *process, text string) (status int, body tree) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.listen)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = conn.Write([]byte(text))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text = readAll(t, response)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"), text)
	return response.StatusCode, decode(t, text)
}

func TestSpecRawRequests(t *testing.T) {
	t.Parallel()
	p := open(t)
	const body = `{"agentId":"quick"}`
	for _, c := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"garbage", "\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"no_version", "GET\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"bad_length", "POST /api/agents/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"bad_chunk", "POST /api/agents/conversations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"long_path", "GET /api/agents/" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "path_too_long"},
		{"long_header", "GET /api/agents/agents HTTP/1.1\r\nHost: localhost\r\nX-Big: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431, "header_too_large"},
		{"bad_escape_in_path", "GET /api/agents/conversations/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"bad_escape_at_the_end", "GET /api/agents/agents/a% HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "VALIDATION_ERROR"},
		{"announced_body_over_1_mib", "POST /api/agents/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 9000), 413, "too_large"},
		{"chunked_body", fmt.Sprintf("POST /api/agents/conversations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body), 201, ""},
		{"no_host", "GET /api/agents/agents HTTP/1.0\r\n\r\n", 200, ""},
		{"absolute_url", "GET http://localhost/api/agents/agents HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""},
	} {
		t.Run("raw_"+c.name, func(t *testing.T) {
			status, answer := send(t, p, c.request)
			require.Equal(t, c.status, status, answer.v)
			if c.code != "" {
				require.NoError(t, object(fields{"error": nonEmpty, "code": exactly(c.code), "message": exactly(answer.text("error"))})(answer.v))
			}
		})
	}
}
