package convapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// png is the beginning of an image, which is all that its type is told from.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

// withFiles lets the assistant take files and plays the rules that add and remove them.
func withFiles(k *kit) {
	k.agents = append(endpointtest.Agents{{
		Id: "filer", Name: "Filer", Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{
			Enabled: true, MaxFiles: 3, MaxFileSize: 200_000, AllowedMimeTypes: []string{"image/*", "text/csv", "text/plain"},
		}},
	}}, k.agents...)
	k.runtime.OnAsk = func(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		state, err := k.store.State(ctx, command.GetConversationId())
		if err != nil {
			return nil, err
		}
		if remove := command.GetRemoveFile(); remove != nil {
			for i, file := range state.GetFiles() {
				if file.GetId() == remove.GetFileId() {
					state.Files = append(state.Files[:i:i], state.Files[i+1:]...)
					return stateReply(state), k.files.Delete(ctx, file.GetId())
				}
			}
			return nil, fail(failurepb.Code_NOT_FOUND, "file not found")
		}
		file := command.GetAddFile().GetFile()
		if strings.HasPrefix(file.GetName(), "refused") {
			return nil, fail(failurepb.Code_TOO_MANY_FILES, "no room")
		}
		state.Files = append(state.Files, file)
		reply := &conversationpb.Reply{Body: &conversationpb.Reply_File{File: &conversationpb.FileReply{File: file}}}
		return reply, k.files.Commit(ctx, file, endpoint.Stored{Size: file.GetSize()})
	}
}

// filed is a conversation with the agent that takes files.
func filed(id, user string) *endpointtest.Conversation {
	talk := endpointtest.Talk(id, user, 2)
	talk.State.AgentId = "filer"
	return talk
}

func inline(name, mimeType, content string) string {
	return `{"name":"` + name + `","mimeType":"` + mimeType + `","content":"` + base64.StdEncoding.EncodeToString([]byte(content)) + `"}`
}

// TestFileNamesAreNotWords: a file is told by its own name, whatever fields of ours it is named after.
func TestFileNamesAreNotWords(t *testing.T) {
	const name = "the conversation fileId onReach.txt"
	k := serve(t, withFiles)
	k.store.Put(filed(conv1, "u"))
	path := "/files?conversationId=" + conv1 + "&userId=u&name=" + url.QueryEscape(name)
	got := k.refused(400, "VALIDATION_ERROR", "POST", path, "", "Content-Type", "application/octet-stream")
	require.Equal(t, `file "`+name+`" is empty`, got.at(t, "error"))
}

func TestUploadForms(t *testing.T) {
	k := serve(t, withFiles)
	k.store.Put(filed(conv1, "u"))
	conversation := "conversationId=" + conv1 + "&userId=u"
	cases := []struct {
		name, path, body, contentType string
		fileName, mimeType            string
	}{
		{"raw", "?name=a.png&" + conversation, png, "image/png", "a.png", "image/png"},
		{"raw_type_is_told_from_the_bytes", "?name=a.txt&" + conversation, png, "text/plain", "a.txt", "image/png"},
		{"raw_type_in_the_query", "?name=b.csv&mimeType=text%2Fcsv&" + conversation, "a;b", "application/octet-stream", "b.csv", "text/csv"},
		{"json", "?userId=u", `{"file":` + inline(`ü \"x\".csv`, "text/csv; charset=utf-8", "a;b\n") +
			`,"conversationId":"` + conv1 + `","metadata":{"k":[1]}}`, "application/json", `ü "x".csv`, "text/csv"},
		{"json_without_a_type", "?" + conversation, `{"file":` + inline("C:\\\\dir\\\\n.txt", "", "text") + `}`, "", "n.txt", "text/plain"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inner := *k
			inner.t = t
			state, err := k.store.State(t.Context(), conv1)
			require.NoError(t, err)
			state.Files = nil
			r := inner.do("POST", "/files"+c.path, c.body, "Content-Type", c.contentType)
			require.Equal(t, 201, r.status, "%s", r.raw)
			require.Equal(t, c.fileName, r.at(t, "file", "name"))
			require.Equal(t, c.mimeType, r.at(t, "file", "mimeType"))
			require.Equal(t, conv1, r.at(t, "file", "conversationId"))
			require.Equal(t, "u", r.at(t, "file", "userId"))
			require.Equal(t, "filer", r.at(t, "file", "agentId"))
			require.Regexp(t, `^[0-9a-f]{32}(\.[a-z]+)?$`, r.at(t, "file", "storageKey"))
			require.NotContains(t, r.at(t, "file"), "expiresAt")
			add := k.last().GetAddFile()
			require.Equal(t, "filer", add.GetAgent().GetId())
			require.Len(t, add.GetFile().GetSha256(), 32)
			id, ok := r.at(t, "file", "id").(string)
			require.True(t, ok)
			require.Equal(t, r.at(t, "file"), inner.do("GET", "/files/"+id+"?userId=u", "").at(t), "the record itself")
			listed := inner.do("GET", "/conversations/"+conv1+"/files?userId=u", "")
			require.Equal(t, r.at(t, "file"), listed.at(t, "files", 0))
			require.Equal(t, true, inner.do("DELETE", "/files/"+id+"?userId=u", "").at(t, "success"))
			inner.refused(404, "NOT_FOUND", "DELETE", "/files/"+id, "")
			inner.refused(404, "NOT_FOUND", "GET", "/files/"+id, "")
			require.Zero(t, k.files.Len())
		})
	}
	empty := k.do("GET", "/conversations/"+conv1+"/files", "")
	require.JSONEq(t, `{"files":[]}`, string(empty.raw))
}

func TestUploadRefusals(t *testing.T) {
	k := serve(t, withFiles, withConfig(func(c *convapi.Config) { c.MaxFileBody = 100_000; c.FileBytes = 50_000 }))
	k.store.Put(filed(conv1, ""))
	plain := endpointtest.Talk(conv2, "", 2)
	k.store.Put(plain)
	full := filed("conv_full", "")
	full.State.Files = []*conversationpb.File{{Id: "a"}, {Id: "b"}, {Id: "c"}}
	k.store.Put(full)
	closed := filed("conv_closed", "")
	closed.State.AgentId = "plain"
	k.store.Put(closed)
	orphan := filed("conv_orphan", "")
	orphan.State.AgentId = "no more"
	k.store.Put(orphan)
	raw := []string{"Content-Type", "image/png"}
	large := png + strings.Repeat("x", 200_000)
	cases := []struct {
		name   string
		status int
		code   string
		path   string
		body   string
		header []string
	}{
		{"raw_without_a_name", 400, "VALIDATION_ERROR", "", png, raw},
		{"name_of_folders_only", 400, "VALIDATION_ERROR", "?name=a%2F", png, raw},
		{"name_with_a_line_end", 400, "VALIDATION_ERROR", "?name=a%0Ab", png, raw},
		{"name_too_long", 400, "VALIDATION_ERROR", "?name=" + strings.Repeat("x", 256), png, raw},
		{"json_without_a_file", 400, "VALIDATION_ERROR", "", `{}`, nil},
		{"json_of_another_kind", 400, "VALIDATION_ERROR", "", `[]`, nil},
		{"no_base64", 400, "VALIDATION_ERROR", "", `{"file":{"name":"a","content":"%%%"}}`, nil},
		{"no_content", 400, "VALIDATION_ERROR", "", `{"file":{"name":"a"}}`, nil},
		{"empty", 400, "VALIDATION_ERROR", "?name=a", "", raw},
		{"type_too_long", 400, "VALIDATION_ERROR", "?name=a&mimeType=text/" + strings.Repeat("x", 256), "text", raw},
		{"metadata_too_large", 400, "VALIDATION_ERROR", "", `{"file":` + inline("a", "", "x") + `,"metadata":{"k":"` + strings.Repeat("x", 2048) + `"}}`, nil},
		{"form", 400, "VALIDATION_ERROR", "?name=a", png, []string{"Content-Type", "multipart/form-data; boundary=x"}},
		{"unknown_conversation", 404, "NOT_FOUND", "?name=a&conversationId=" + gone, png, raw},
		{"implausible_conversation", 404, "NOT_FOUND", "?name=a&conversationId=a%2Fb", png, raw},
		{"too_large_as_declared", 400, "VALIDATION_ERROR", "?name=a&conversationId=" + conv1, large, raw},
		{"too_large_for_nobody", 400, "VALIDATION_ERROR", "?name=a", large[:60_000], raw},
		{"json_body_too_large", 413, "too_large", "", `{"file":` + inline("a", "", large) + `}`, nil},
		{"type", 415, "unsupported_file_type", "?name=a.png&conversationId=" + conv1, "%PDF-1.4 x", raw},
		{"no_room", 409, "too_many_files", "?name=a&conversationId=conv_full", png, raw},
		{"no_attachments", 403, "attachments_disabled", "?name=a&conversationId=conv_closed", png, raw},
		{"agent_is_gone", 404, "NOT_FOUND", "?name=a&conversationId=conv_orphan", png, raw},
		{"refused_by_the_rules", 409, "too_many_files", "?name=refused&conversationId=" + conv1, png, raw},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inner := *k
			inner.t = t
			inner.refused(c.status, c.code, "POST", "/files"+c.path, c.body, c.header...)
			require.Zero(t, k.files.Len(), "nothing stays")
		})
	}
	t.Run("too_large_in_chunks", func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			k.url+"/files?name=a&conversationId="+conv1, iotest.HalfReader(strings.NewReader(large)))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "image/png")
		answer, err := k.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 400, answer.StatusCode)
		require.Zero(t, k.files.Len())
	})
	full.State.Files[1].ExpiresAt = 1
	require.Equal(t, 201, k.do("POST", "/files?name=a&conversationId=conv_full", png, raw...).status, "what is over takes no room")
	listed := k.do("GET", "/conversations/conv_full/files", "")
	require.Len(t, listed.at(t, "files"), 3)
	k.files.Err = fail(failurepb.Code_STORAGE_FULL, "the disk is full")
	k.refused(503, "storage_full", "POST", "/files?name=a", png, raw...)
}

func TestWhoseFile(t *testing.T) {
	k := serve(t, withFiles, withAuth)
	k.store.Put(filed(conv1, "ann"))
	ann, bob := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}
	upload := func(path string) string {
		r := k.do("POST", "/files?name=a.png"+path, png, append([]string{"Content-Type", "image/png"}, ann...)...)
		require.Equal(t, 201, r.status, "%s", r.raw)
		require.Equal(t, "ann", r.at(t, "file", "userId"))
		id, ok := r.at(t, "file", "id").(string)
		require.True(t, ok)
		return id
	}
	k.refused(403, "FORBIDDEN", "POST", "/files?name=a&conversationId="+conv1, png, append([]string{"Content-Type", "a/b"}, bob...)...)
	k.refused(403, "FORBIDDEN", "GET", "/conversations/"+conv1+"/files", "", bob...)
	for name, id := range map[string]string{"of_a_conversation": upload("&conversationId=" + conv1), "loose": upload("")} {
		t.Run(name, func(t *testing.T) {
			for _, request := range [][2]string{{"GET", ""}, {"GET", "/content"}, {"DELETE", ""}} {
				k.refused(403, "FORBIDDEN", request[0], "/files/"+id+request[1], "", bob...)
				k.refused(401, "AUTH_REQUIRED", request[0], "/files/"+id+request[1], "")
			}
			require.Equal(t, 200, k.do("GET", "/files/"+id, "", ann...).status)
			require.Equal(t, png, string(k.do("GET", "/files/"+id+"/content", "", ann...).raw))
			require.Equal(t, 200, k.do("DELETE", "/files/"+id, "", ann...).status)
			k.refused(404, "NOT_FOUND", "GET", "/files/"+id, "", ann...)
			k.refused(404, "NOT_FOUND", "GET", "/files/"+id+"/content", "", ann...)
		})
	}
	for _, id := range []string{gone, "a%2F..", strings.Repeat("x", 65)} {
		k.refused(404, "NOT_FOUND", "GET", "/files/"+id, "", ann...)
		k.refused(404, "NOT_FOUND", "GET", "/files/"+id+"/content", "", ann...)
		k.refused(404, "NOT_FOUND", "DELETE", "/files/"+id, "", ann...)
	}
}

func TestDownload(t *testing.T) {
	k := serve(t, withFiles)
	content := png + strings.Repeat("0123456789", 10_000)
	upload := k.do("POST", "/files?name="+url.QueryEscape(`bild "ä".png`), content, "Content-Type", "image/png")
	require.Equal(t, 201, upload.status)
	id, _ := upload.at(t, "file", "id").(string)
	whole := k.do("GET", "/files/"+id+"/content", "")
	require.Equal(t, 200, whole.status)
	require.Equal(t, content, string(whole.raw))
	for name, want := range map[string]string{
		"Content-Type":            "image/png",
		"Content-Disposition":     `inline; filename="bild ___.png"; filename*=UTF-8''bild%20%22%C3%A4%22.png`,
		"X-Content-Type-Options":  "nosniff",
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
		"Cache-Control":           "private, no-cache",
		"Accept-Ranges":           "bytes",
	} {
		require.Equal(t, want, whole.header.Get(name), name)
	}
	etag := whole.header.Get("ETag")
	require.Len(t, etag, 66)
	part := k.do("GET", "/files/"+id+"/content", "", "Range", "bytes=1-3", "If-Range", etag)
	require.Equal(t, 206, part.status)
	require.Equal(t, "PNG", string(part.raw))
	require.Equal(t, 304, k.do("GET", "/files/"+id+"/content", "", "If-None-Match", etag).status)
	k.refused(416, "range_not_satisfiable", "GET", "/files/"+id+"/content", "", "Range", "bytes=200000-")
}

// TestWhatBrowsersRunIsAnAttachment: no file opens as a page.
func TestWhatBrowsersRunIsAnAttachment(t *testing.T) {
	k := serve(t, withFiles)
	for content, want := range map[string]string{
		"<!DOCTYPE html><script>alert(1)</script>":                                "attachment text/html; charset=utf-8",
		`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`: "attachment image/svg+xml",
		`<?xml version="1.0"?><a/>`:                                               "attachment text/xml; charset=utf-8",
		"%PDF-1.4 x":                                                              "attachment application/pdf",
		"\x00\x01\x02":                                                            "attachment application/octet-stream",
		"plain words":                                                             "inline text/plain; charset=utf-8",
		`{"a":1}`:                                                                 "attachment application/json",
		png:                                                                       "inline image/png",
	} {
		upload := k.do("POST", "/files?name=x", content, "Content-Type", "image/png")
		require.Equal(t, 201, upload.status)
		id, _ := upload.at(t, "file", "id").(string)
		answer := k.do("GET", "/files/"+id+"/content", "")
		kind, _, _ := strings.Cut(answer.header.Get("Content-Disposition"), ";")
		require.Equal(t, want, kind+" "+answer.header.Get("Content-Type"), content)
	}
	// Texts are what their uploader says they are, and still no pages.
	upload := k.do("POST", "/files?name=x", "just words", "Content-Type", "text/html")
	id, _ := upload.at(t, "file", "id").(string)
	answer := k.do("GET", "/files/"+id+"/content", "")
	require.Equal(t, "text/html; charset=utf-8", answer.header.Get("Content-Type"))
	require.Contains(t, answer.header.Get("Content-Disposition"), "attachment")
}

func TestLooseFilesExpire(t *testing.T) {
	k := serve(t, withFiles, withConfig(func(c *convapi.Config) { c.FileRetention = 1_000_000_000 }))
	upload := k.do("POST", "/files?name=x", png, "Content-Type", "image/png")
	require.NotEmpty(t, upload.at(t, "file", "expiresAt"))
	id, _ := upload.at(t, "file", "id").(string)
	file, err := k.files.File(t.Context(), id)
	require.NoError(t, err)
	file.ExpiresAt = 1
	k.refused(404, "NOT_FOUND", "GET", "/files/"+id, "")
	k.refused(404, "NOT_FOUND", "GET", "/files/"+id+"/content", "")
}

// TestFilesWithAMessage: their bytes are stored first, all or none; they become the conversation's with the message.
func TestFilesWithAMessage(t *testing.T) {
	k := serve(t, withFiles)
	k.store.Put(filed(conv1, ""))
	adds := k.runtime.OnAsk
	state, err := k.store.State(t.Context(), conv1)
	require.NoError(t, err)
	k.runtime.OnAsk = func(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		if command.GetSend() == nil {
			return adds(ctx, command)
		}
		for _, file := range command.GetOpening().GetFiles() {
			if strings.HasPrefix(file.GetName(), "refused") {
				return nil, fail(failurepb.Code_TOO_MANY_FILES, "no room")
			}
		}
		for _, file := range command.GetOpening().GetFiles() {
			require.NoError(t, k.files.Commit(ctx, file, endpoint.Stored{Size: file.GetSize()}))
			state.Files = append(state.Files, file)
		}
		return &conversationpb.Reply{Body: &conversationpb.Reply_Turn{Turn: &conversationpb.TurnResult{
			RunId: "run_1", StopReason: conversationpb.StopReason_END_TURN, UserMessage: &conversationpb.Message{Id: "msg_1"},
		}}}, nil
	}
	path := "/conversations/" + conv1 + "/messages"
	sent := k.do("POST", path, `{"message":"look","files":[`+inline("a.png", "", png)+","+inline("b.csv", "text/csv", "x")+`]}`)
	require.Equal(t, 200, sent.status, "%s", sent.raw)
	require.Len(t, k.last().GetSend().GetFileIds(), 2)
	require.Equal(t, 2, k.files.Len())
	before := len(k.runtime.Commands())
	two := inline("c.png", "", png) + "," + inline("d.png", "", png)
	k.refused(409, "too_many_files", "POST", path, `{"message":"x","files":[`+two+`]}`)
	k.refused(415, "unsupported_file_type", "POST", path, `{"message":"x","files":[`+inline("c.pdf", "image/png", "%PDF-1.4")+`]}`)
	k.refused(400, "VALIDATION_ERROR", "POST", path, `{"message":"x","files":[{"name":"a","content":"*"}]}`)
	k.refused(400, "VALIDATION_ERROR", "POST", path, `{"message":"x","files":[`+inline("c.png", "", png+strings.Repeat("x", 200_000))+`]}`)
	require.Len(t, k.runtime.Commands(), before, "refused before anything is stored")
	state.Files = nil
	k.refused(409, "too_many_files", "POST", path, `{"message":"x","files":[`+inline("e.png", "", png)+","+inline("refused.png", "", png)+`]}`)
	require.Equal(t, 2, k.files.Len(), "what was stored before the refusal is taken back")
	require.Empty(t, state.GetFiles())
}

// TestFilesOfAStreamThatIsRefused: who gets no stream leaves no files behind, which nobody would know of.
func TestFilesOfAStreamThatIsRefused(t *testing.T) {
	k := serve(t, withFiles, func(k *kit) { k.limiter = fullOfStreams{} })
	k.store.Put(filed(conv1, ""))
	k.refused(429, "rate_limited", "POST", "/conversations/"+conv1+"/messages",
		`{"message":"look","stream":true,"files":[`+inline("a.png", "", png)+`]}`)
	require.Zero(t, k.files.Len())
}

// TestUploadIsNotHeld: a body beyond every limit of bodies is stored as it comes.
func TestUploadIsNotHeld(t *testing.T) {
	k := serve(t, withFiles, withConfig(func(c *convapi.Config) { c.FileBytes = 5 << 20 }))
	content := bytes.Repeat([]byte("abcdefgh"), 500_000)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.url+"/files?name=a.txt",
		io.MultiReader(bytes.NewReader(content))) // of unknown length
	require.NoError(t, err)
	request.Header.Set("Content-Type", "text/plain")
	answer, err := k.client.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, 201, answer.StatusCode)
	var out struct{ File struct{ ID string } }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
	require.Equal(t, content, k.do("GET", "/files/"+out.File.ID+"/content", "").raw)
}

// TestUploadThatBreaksOff: half a file is no file.
func TestUploadThatBreaksOff(t *testing.T) {
	k := serve(t, withFiles)
	k.store.Put(filed(conv1, ""))
	target, err := url.Parse(k.url)
	require.NoError(t, err)
	for name, framing := range map[string]string{
		"declared": "Content-Length: 5000\r\n\r\n" + png,
		"chunked":  "Transfer-Encoding: chunked\r\n\r\n4\r\n" + png[:4] + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", target.Host)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, "POST "+target.Path+"/files?name=a.png&conversationId="+conv1+
				" HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n"+framing)
			require.NoError(t, err)
			tcp, ok := conn.(*net.TCPConn)
			require.True(t, ok)
			require.NoError(t, tcp.CloseWrite())
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, 400, answer.StatusCode)
			require.Zero(t, k.files.Len())
		})
	}
}
