package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fileRecordShape(over fields) shape {
	return object(fields{
		"id": idOf("file"), "name": nonEmpty, "mimeType": nonEmpty, "size": integer, "storageKey": like(`^[0-9a-f]{32}(\.[a-z0-9]+)?$`),
		"conversationId?": idOf("conv"), "userId?": nonEmpty, "agentId?": nonEmpty, "expiresAt?": nonEmpty,
		"metadata": anyObject, "createdAt": moment,
	}.with(over))
}

// upload stores bytes as a file and returns the record. query goes behind name and conversation.
func (p *process) upload(t *testing.T, conversation, name, contentType string, data []byte, headers ...string) tree {
	t.Helper()
	return p.uploading(t, conversation, name, contentType, data, headers...).
		fits(201, object(fields{"file": fileRecordShape(nil)})).at("file")
}

func (p *process) uploading(t *testing.T, conversation, name, contentType string, data []byte, headers ...string) answer {
	t.Helper()
	query := url.Values{"name": {name}}
	if conversation != "" {
		query.Set("conversationId", conversation)
	}
	return p.ask(t, "POST", "/files?"+query.Encode(), string(data), append(headers, "Content-Type", contentType)...)
}

// somePNG is a PNG file as far as its first bytes say.
var somePNG = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89") // a constant

func randomBytes(size int) []byte {
	source := rand.NewChaCha8([32]byte{byte(size)})
	data := make([]byte, size)
	_, _ = source.Read(data) // never fails
	return data
}

func TestSpecFiles(t *testing.T) {
	t.Parallel()
	p := content(t)
	t.Run("raw_bytes_become_a_file", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		file := p.uploading(t, id, "notes.txt", "text/plain", []byte("hello there")).fits(201, object(fields{"file": fileRecordShape(fields{
			"name": exactly("notes.txt"), "mimeType": exactly("text/plain"), "size": exactly(11), "storageKey": like(`^[0-9a-f]{32}\.txt$`),
			"conversationId": exactly(id), "userId": exactly("files"), "agentId": exactly("open"), "expiresAt": nil, "metadata": exactly(map[string]any{}),
		})})).at("file")
		fileID := file.text("id")
		require.Equal(t, file.v, p.ask(t, "GET", "/files/"+fileID, nil).fits(200, fileRecordShape(nil)).v, "the record itself")
		require.NoError(t, exactly(map[string]any{"files": []any{file.v}})(p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).v))
		require.NoError(t, exactly(map[string]any{"file": map[string]any{
			"id": fileID, "name": "notes.txt", "mime_type": "text/plain", "size": 11,
		}})(p.logged(t, id, "file.added")[0].v))
		a := p.ask(t, "GET", "/files/"+fileID+"/content", nil)
		require.Equal(t, 200, a.status)
		require.Equal(t, "hello there", a.text)
	})
	t.Run("json_becomes_a_file", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		for _, kind := range []string{"application/json", "application/json; charset=utf-8", ""} {
			body := map[string]any{
				"file":           map[string]string{"name": `C:\dir\a.csv`, "content": base64.StdEncoding.EncodeToString([]byte("a,b\n1,2\n")), "mimeType": "text/csv"},
				"conversationId": id, "metadata": map[string]any{"k": 1},
			}
			var headers []string
			if kind != "" {
				headers = []string{"Content-Type", kind}
			}
			p.ask(t, "POST", "/files", body, headers...).fits(201, object(fields{"file": fileRecordShape(fields{
				"name": exactly("a.csv"), "mimeType": exactly("text/csv"), "size": exactly(8), "metadata": exactly(map[string]any{"k": 1}), "conversationId": exactly(id),
			})}))
		}
		require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).at("files").list(), 3)
	})
	t.Run("file_without_a_conversation", func(t *testing.T) {
		file := p.uploading(t, "", "data.json", "application/json", []byte(`{"x":1}`)).fits(201, object(fields{"file": fileRecordShape(fields{
			"conversationId": nil, "agentId": nil, "mimeType": exactly("application/json"), "size": exactly(7),
		})})).at("file")
		require.Equal(t, file.v, p.ask(t, "GET", "/files/"+file.text("id"), nil).fits(200, anyObject).v)
		require.Equal(t, `{"x":1}`, p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil).text)
		id := p.newConversation(t, "open", "files")
		p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "fileIds": []string{file.text("id")}}).refused(404, "NOT_FOUND")
		p.ask(t, "DELETE", "/files/"+file.text("id"), nil).fits(200, exactly(map[string]bool{"success": true}))
		p.ask(t, "GET", "/files/"+file.text("id"), nil).refused(404, "NOT_FOUND")
	})
	t.Run("types_are_told_from_the_bytes", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		for _, c := range []struct{ name, declared, content, kind, disposition string }{
			{"a.png", "text/plain", string(somePNG), "image/png", "inline"},
			{"page.png", "image/png", "<!doctype html><script>alert(1)</script>", "text/html", "attachment"},
			{"a.svg", "image/svg+xml", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"></svg>`, "image/svg+xml", "attachment"},
			{"a.csv", "text/csv", "x", "text/csv", "attachment"},
			{"a.txt", "application/pdf", "just text", "text/plain", "inline"},
			{"a.pdf", "text/html", "%PDF-1.4\n", "application/pdf", "attachment"},
			{"a.exe", "image/png", "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff", "application/vnd.microsoft.portable-executable", "attachment"},
		} {
			file := p.upload(t, id, c.name, c.declared, []byte(c.content))
			require.Equal(t, c.kind, file.text("mimeType"), c.name)
			a := p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil)
			require.Equal(t, c.kind, strings.TrimSuffix(a.header.Get("Content-Type"), "; charset=utf-8"), c.name)
			require.Equal(t, c.disposition+`; filename="`+c.name+`"`, a.header.Get("Content-Disposition"))
			require.Contains(t, a.header.Get("Content-Security-Policy"), "sandbox")
			require.Contains(t, a.header.Get("Cache-Control"), "private")
			require.Equal(t, c.content, a.text)
		}
	})
	t.Run("names_are_written_safely", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		for name, want := range map[string]string{
			`a"b.txt`:    `filename="a_b.txt"; filename*=UTF-8''a%22b.txt`,
			"größe 🙂.md": `filename="gr__e _.md"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%F0%9F%99%82.md`,
			"../../x.sh": `filename="x.sh"`,
		} {
			file := p.upload(t, id, name, "text/plain", []byte("x"))
			a := p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil)
			require.Equal(t, want, strings.SplitN(a.header.Get("Content-Disposition"), "; ", 2)[1])
		}
	})
	t.Run("removed_file_is_gone", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		file := p.upload(t, id, "a.txt", "text/plain", []byte("x")).text("id")
		p.ask(t, "DELETE", "/files/"+file, nil).fits(200, exactly(map[string]bool{"success": true}))
		for _, route := range []string{"GET /files/" + file, "GET /files/" + file + "/content", "DELETE /files/" + file} {
			method, path, _ := strings.Cut(route, " ")
			p.ask(t, method, path, nil).refused(404, "NOT_FOUND")
		}
		require.NoError(t, exactly(map[string]any{"files": []any{}})(p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).v))
		require.NoError(t, exactly(map[string]any{"file_ids": []string{file}, "reason": "deleted"})(p.logged(t, id, "file.removed")[0].v))
	})
	t.Run("files_go_with_their_conversation", func(t *testing.T) {
		id := p.newConversation(t, "open", "files")
		file := p.upload(t, id, "a.bin", "application/octet-stream", randomBytes(300<<10)).text("id")
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		for _, path := range []string{"/files/" + file, "/files/" + file + "/content", "/conversations/" + id + "/files"} {
			p.ask(t, "GET", path, nil).refused(404, "NOT_FOUND")
		}
	})
	t.Run("retention_days_are_kept", func(t *testing.T) {
		id := p.newConversation(t, "narrow", "files")
		file := p.upload(t, id, "a.csv", "text/csv", []byte("a,b"))
		created, err := time.Parse(time.RFC3339, file.text("createdAt"))
		require.NoError(t, err)
		expires, err := time.Parse(time.RFC3339, file.text("expiresAt"))
		require.NoError(t, err)
		require.Equal(t, 7*24*time.Hour, expires.Sub(created))
	})
}

func TestSpecFileContent(t *testing.T) {
	t.Parallel()
	p := content(t)
	id := p.newConversation(t, "open", "file content")
	data := randomBytes(600_001) // pieces of 256 KiB: two whole ones and a part
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	path := "/files/" + p.upload(t, id, "random.bin", "application/octet-stream", data).text("id") + "/content"
	t.Run("whole_file_with_its_tag", func(t *testing.T) {
		a := p.ask(t, "GET", path, nil)
		require.Equal(t, 200, a.status)
		require.Equal(t, data, []byte(a.text))
		require.Equal(t, tag, a.header.Get("Etag"))
		require.Equal(t, "bytes", a.header.Get("Accept-Ranges"))
		require.Equal(t, "600001", a.header.Get("Content-Length"))
		p.ask(t, "GET", path, nil, "If-None-Match", tag).empty(304)
		head := p.ask(t, "HEAD", path, nil)
		head.empty(200)
		require.Equal(t, "600001", head.header.Get("Content-Length"))
	})
	for _, c := range []struct {
		asked     string
		from, to  int // of what comes; to is behind the last
		condition string
	}{
		{"bytes=0-0", 0, 1, ""},
		{"bytes=1-9", 1, 10, ""},
		{"bytes=262143-262144", 262143, 262145, ""},
		{"bytes=262144-", 262144, 600_001, ""},
		{"bytes=-5", 599_996, 600_001, ""},
		{"bytes=-900000", 0, 600_001, ""},
		{"bytes=600000-999999999999999999999", 600_000, 600_001, ""},
		{"bytes=5-9", 5, 10, tag},
	} {
		t.Run("range_"+c.asked, func(t *testing.T) {
			headers := []string{"Range", c.asked}
			if c.condition != "" {
				headers = append(headers, "If-Range", c.condition)
			}
			a := p.ask(t, "GET", path, nil, headers...)
			require.Equal(t, 206, a.status)
			require.Equal(t, fmt.Sprintf("bytes %d-%d/600001", c.from, c.to-1), a.header.Get("Content-Range"))
			require.Equal(t, data[c.from:c.to], []byte(a.text))
		})
	}
	t.Run("ranges_that_cannot_be_are_416", func(t *testing.T) {
		for _, asked := range []string{"bytes=600001-", "bytes=-0", "bytes=700000-800000"} {
			a := p.ask(t, "GET", path, nil, "Range", asked)
			require.Equal(t, 416, a.status, asked)
			require.Equal(t, "bytes */600001", a.header.Get("Content-Range"))
		}
	})
	t.Run("ranges_that_mean_nothing_are_ignored", func(t *testing.T) {
		for _, headers := range [][]string{
			{"Range", "bytes=9-5"},
			{"Range", "lines=1-2"},
			{"Range", "bytes=0-1,5-6"},
			{"Range", "bytes=a-b"},
			{"Range", "bytes=0-1", "If-Range", `"other"`},
		} {
			a := p.ask(t, "GET", path, nil, headers...)
			require.Equal(t, 200, a.status, headers)
			require.Len(t, a.text, len(data))
		}
	})
	t.Run("sizes_around_a_piece", func(t *testing.T) {
		for _, size := range []int{1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 512 << 10} {
			whole := randomBytes(size)
			file := p.upload(t, id, "x", "application/octet-stream", whole)
			require.InDelta(t, size, file.number("size"), 0)
			require.Equal(t, whole, []byte(p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil).text), size)
		}
	})
	t.Run("largest_file_as_chunks", func(t *testing.T) {
		whole := randomBytes(10 << 20)
		body := struct{ *bytes.Reader }{bytes.NewReader(whole)} // whose length nobody can tell
		request, err := http.NewRequestWithContext(t.Context(), "POST", p.url("/files?name=large&conversationId="+id), body)
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/octet-stream")
		response, err := client().Do(request)
		require.NoError(t, err)
		text := readAll(t, response)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 201, response.StatusCode, text)
		got := p.ask(t, "GET", "/files/"+decode(t, text).text("file", "id")+"/content", nil)
		require.True(t, bytes.Equal(whole, []byte(got.text)))
	})
}

func TestSpecFileRefusals(t *testing.T) {
	t.Parallel()
	p := content(t)
	id, narrow, closed := p.newConversation(t, "open", "file refusals"), p.newConversation(t, "narrow", "file refusals"), p.newConversation(t, "closed", "file refusals")
	file := func(name, content string) map[string]any {
		return map[string]any{"name": name, "content": content, "mimeType": "text/plain"}
	}
	for _, c := range []refusal{
		{"no_file", `{}`, 400, "VALIDATION_ERROR"},
		{"null_file", `{"file":null}`, 400, "VALIDATION_ERROR"},
		{"text_as_file", `{"file":"x"}`, 400, "VALIDATION_ERROR"},
		{"no_name", map[string]any{"file": file("", "YQ==")}, 400, "VALIDATION_ERROR"},
		{"name_that_is_a_folder", map[string]any{"file": file("a/", "YQ==")}, 400, "VALIDATION_ERROR"},
		{"name_with_control_characters", map[string]any{"file": file("a\r\nX-Evil: 1", "YQ==")}, 400, "VALIDATION_ERROR"},
		{"long_name", map[string]any{"file": file(strings.Repeat("x", 256), "YQ==")}, 400, "VALIDATION_ERROR"},
		{"no_content", map[string]any{"file": file("a", "")}, 400, "VALIDATION_ERROR"},
		{"content_that_is_not_base64", map[string]any{"file": file("a", "a*b")}, 400, "VALIDATION_ERROR"},
		{"unknown_conversation", map[string]any{"file": file("a", "YQ=="), "conversationId": "conv_AAAAAAAAAAAAAAAAAAAAA"}, 404, "NOT_FOUND"},
		{"odd_conversation", map[string]any{"file": file("a", "YQ=="), "conversationId": "../x"}, 404, "NOT_FOUND"},
		{"list_as_metadata", map[string]any{"file": file("a", "YQ=="), "metadata": []int{}}, 400, "VALIDATION_ERROR"},
		{"agent_without_files", map[string]any{"file": file("a", "YQ=="), "conversationId": closed}, 403, "attachments_disabled"},
		{"type_that_is_not_accepted", map[string]any{"file": file("a", "YQ=="), "conversationId": narrow}, 415, "unsupported_file_type"},
	} {
		t.Run("file_"+c.name, func(t *testing.T) {
			p.ask(t, "POST", "/files", c.body).refused(c.status, c.code)
		})
	}
	t.Run("json_body_over_16_mib_is_413", func(t *testing.T) {
		status, body := send(t, p, fmt.Sprintf("POST /api/agents/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 17<<20, strings.Repeat("x", 10_000)))
		require.Equal(t, 413, status)
		require.Equal(t, "too_large", body.text("code"))
	})
	t.Run("raw_file_without_a_name", func(t *testing.T) {
		p.ask(t, "POST", "/files", "x", "Content-Type", "text/plain").refused(400, "VALIDATION_ERROR")
	})
	t.Run("raw_file_of_no_bytes", func(t *testing.T) {
		p.uploading(t, id, "a", "text/plain", nil).refused(400, "VALIDATION_ERROR")
	})
	t.Run("form_is_not_taken", func(t *testing.T) {
		p.uploading(t, id, "a", "multipart/form-data; boundary=x", []byte("--x--")).refused(400, "VALIDATION_ERROR")
	})
	t.Run("file_larger_than_the_agent_takes", func(t *testing.T) {
		details := p.uploading(t, narrow, "a.csv", "text/csv", bytes.Repeat([]byte("a,"), 600)).refused(400, "VALIDATION_ERROR")
		require.NoError(t, exactly(map[string]int{"maxFileSize": 1024})(details.v))
		p.uploading(t, narrow, "a.csv", "text/csv", bytes.Repeat([]byte("a,"), 512)).fits(201, anyObject)
	})
	t.Run("large_upload_hears_why_it_is_refused", func(t *testing.T) {
		large := bytes.Repeat([]byte("a,b\n"), 10<<20)
		p.uploading(t, narrow, "a.csv", "text/csv", large).refused(400, "VALIDATION_ERROR")
		p.uploading(t, closed, "a.csv", "text/csv", large).refused(403, "attachments_disabled")
	})
	t.Run("more_files_than_the_agent_takes", func(t *testing.T) {
		p.upload(t, narrow, "b.png", "image/png", somePNG)
		details := p.uploading(t, narrow, "c.png", "image/png", somePNG).refused(409, "too_many_files")
		require.NoError(t, exactly(map[string]int{"maxFiles": 2})(details.v))
		p.ask(t, "POST", "/conversations/"+narrow+"/messages", map[string]any{"message": "x", "files": []any{file("a", "YQ==")}}).refused(409, "too_many_files")
		require.Len(t, p.ask(t, "GET", "/conversations/"+narrow+"/files", nil).fits(200, anyObject).at("files").list(), 2)
	})
	t.Run("of_many_files_at_once_no_more_are_taken", func(t *testing.T) {
		crowded := p.newConversation(t, "narrow", "file refusals")
		var all []func() answer
		for n := range 8 {
			all = append(all, p.asking(t, "POST", fmt.Sprintf("/files?name=%d.csv&conversationId=%s", n, crowded), "a,b", "Content-Type", "text/csv"))
		}
		stored := 0
		for _, one := range all {
			if a := one(); a.status == 201 {
				stored++
			} else {
				a.refused(409, "too_many_files")
			}
		}
		require.Equal(t, 2, stored)
		require.Len(t, p.ask(t, "GET", "/conversations/"+crowded+"/files", nil).fits(200, anyObject).at("files").list(), 2)
	})
	t.Run("broken_upload_leaves_no_file", func(t *testing.T) {
		broken := p.newConversation(t, "open", "file refusals")
		for _, head := range []string{"Content-Length: 600000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n80000\r\n"} {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.listen)
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST /api/agents/files?name=a.bin&conversationId=%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n%s%s",
				broken, head, randomBytes(300_000))
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		p.upload(t, broken, "whole.bin", "application/octet-stream", randomBytes(10))
		require.Equal(t, []string{"whole.bin"}, texts(p.ask(t, "GET", "/conversations/"+broken+"/files", nil).fits(200, anyObject).at("files").list(), "name"))
	})
	t.Run("unknown_files_are_404", func(t *testing.T) {
		for _, unknown := range []string{"file_AAAAAAAAAAAAAAAAAAAAA", "file_x", "x", id, "%2e%2e%2fx"} {
			p.ask(t, "GET", "/files/"+unknown, nil).refused(404, "NOT_FOUND")
			p.ask(t, "GET", "/files/"+unknown+"/content", nil).refused(404, "NOT_FOUND")
			p.ask(t, "DELETE", "/files/"+unknown, nil).refused(404, "NOT_FOUND")
		}
		p.ask(t, "GET", "/conversations/conv_AAAAAAAAAAAAAAAAAAAAA/files", nil).refused(404, "NOT_FOUND")
	})
}

func TestSpecMessageFiles(t *testing.T) {
	t.Parallel()
	p := content(t)
	inline := func(name, content, kind string) map[string]string {
		return map[string]string{"name": name, "content": base64.StdEncoding.EncodeToString([]byte(content)), "mimeType": kind}
	}
	reference := func(id, name, kind string, size int) map[string]any {
		return map[string]any{"id": id, "name": name, "mimeType": kind, "size": size}
	}
	t.Run("files_come_with_a_message", func(t *testing.T) {
		id := p.newConversation(t, "open", "message files")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{
			"message": "look at these", "files": []any{inline("a.txt", "the text inside", "text/plain"), inline("b.png", string(somePNG), "image/jpeg")},
		}).fits(200, turnRecord(fields{"message": userMessage(fields{"files": listOf(anyObject)})}))
		stored := p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, object(fields{"files": listOf(fileRecordShape(nil))})).at("files").list()
		require.Len(t, stored, 2)
		want := []any{
			reference(stored[0].text("id"), "a.txt", "text/plain", 15), reference(stored[1].text("id"), "b.png", "image/png", len(somePNG)),
		}
		require.NoError(t, exactly(want)(turn.at("message", "files").v))
		require.NoError(t, exactly(want)(p.messages(t, id)[0].at("files").v))
		require.Equal(t, "the text inside", p.ask(t, "GET", "/files/"+stored[0].text("id")+"/content", nil).text)
		asked := echo().about(t, "look at these")
		require.Contains(t, asked, "the text inside", "the model reads documents")
		require.Contains(t, asked, "data:image/png;base64,"+base64.StdEncoding.EncodeToString(somePNG), "and sees images")
	})
	t.Run("files_are_named_by_a_message", func(t *testing.T) {
		id := p.newConversation(t, "blind", "message files")
		image := p.upload(t, id, "b.png", "image/png", somePNG).text("id")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "what is this file", "fileIds": []string{image}}).
			fits(200, turnRecord(fields{"message": userMessage(fields{"files": exactly([]any{reference(image, "b.png", "image/png", len(somePNG))})})}))
		require.NotEmpty(t, turn.text("response", "content"))
		asked := echo().about(t, "what is this file")
		require.NotContains(t, asked, "base64", "this model takes no images")
		require.Contains(t, asked, "b.png")
		event := p.logged(t, id, "user.message")[0]
		require.NoError(t, exactly([]any{map[string]any{"id": image, "name": "b.png", "mime_type": "image/png", "size": len(somePNG)}})(event.at("files").v))
	})
	t.Run("files_need_no_words", func(t *testing.T) {
		id := p.newConversation(t, "open", "message files")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"files": []any{inline("mute.png", string(somePNG), "image/png")}}).
			fits(200, turnRecord(fields{"message": userMessage(fields{"content": exactly(""), "files": listOf(anyObject)})}))
		image := turn.at("message", "files").list()[0].text("id")
		p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"message": "", "fileIds": []string{image}}).fits(200, anyObject)
		first := "/conversations/" + id + "/messages/" + turn.text("message", "id") + "/edit"
		p.ask(t, "POST", first, object1{"fileIds": []string{}}).refused(400, "VALIDATION_ERROR")
		p.ask(t, "POST", first, object1{"content": ""}).fits(200, anyObject)
		require.Equal(t, []string{image}, texts(p.messages(t, id)[0].at("files").list(), "id"), "the edited message keeps its own")
		p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"files": []any{inline("mute.txt", "words of a file alone", "text/plain")}}).fits(200, anyObject)
		require.Contains(t, echo().about(t, "words of a file alone"), "data:image/png;base64,")
	})
	t.Run("text_is_shown_as_it_is", func(t *testing.T) {
		id := p.newConversation(t, "open", "message files")
		for name, file := range map[string]map[string]string{
			"README.md": inline("README.md", "<p align=center>tagged readme</p>", "text/markdown"),
			"App.vue":   inline("App.vue", "<template><b>tagged component</b></template>", ""),
			"latin.txt": inline("latin.txt", "tagged caf\xe9", "text/plain; charset=iso-8859-1"),
		} {
			p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"message": "read " + name, "files": []any{file}}).fits(200, anyObject)
		}
		p.say(t, id, "and all")
		asked := echo().about(t, "and all")
		asked = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(asked)
		for _, want := range []string{"<p align=center>tagged readme</p>", "<template><b>tagged component</b></template>", "tagged café"} {
			require.Contains(t, asked, want)
		}
	})
	t.Run("removed_file_is_told_to_the_model", func(t *testing.T) {
		id := p.newConversation(t, "open", "message files")
		p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "keep this", "files": []any{inline("gone.txt", "secret words", "text/plain")}}).fits(200, anyObject)
		file := p.messages(t, id)[0].at("files").list()[0].text("id")
		p.ask(t, "DELETE", "/files/"+file, nil).fits(200, anyObject)
		p.say(t, id, "do you remember it")
		asked := echo().about(t, "do you remember it")
		require.NotContains(t, asked, "secret words")
		require.Contains(t, asked, "gone.txt")
	})
	t.Run("foreign_and_unknown_file_ids_are_404", func(t *testing.T) {
		id, other := p.newConversation(t, "open", "message files"), p.newConversation(t, "open", "message files")
		foreign := p.upload(t, other, "a.txt", "text/plain", []byte("x")).text("id")
		for _, file := range []string{foreign, "file_AAAAAAAAAAAAAAAAAAAAA", "", "x"} {
			p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "fileIds": []string{file}}).refused(404, "NOT_FOUND")
		}
		require.Empty(t, p.messages(t, id))
	})
	t.Run("refused_message_leaves_no_file", func(t *testing.T) {
		id := p.newConversation(t, "narrow", "message files")
		good := inline("a.csv", "a,b", "text/csv")
		for _, c := range []struct {
			files  []any
			status int
			code   string
		}{
			{[]any{good, inline("a.txt", "plain", "text/plain")}, 415, "unsupported_file_type"},
			{[]any{good, inline("b.csv", strings.Repeat("a,", 600), "text/csv")}, 400, "VALIDATION_ERROR"},
			{[]any{good, map[string]string{"name": "x", "content": "*"}}, 400, "VALIDATION_ERROR"},
			{[]any{good, map[string]string{"content": "YQ=="}}, 400, "VALIDATION_ERROR"},
			{[]any{good, good, good}, 409, "too_many_files"},
		} {
			p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "files": c.files}).refused(c.status, c.code)
		}
		p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "files": []any{good}, "fileIds": []string{"file_AAAAAAAAAAAAAAAAAAAAA"}}).refused(404, "NOT_FOUND")
		require.NoError(t, exactly(map[string]any{"files": []any{}})(p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).v))
		require.Empty(t, p.messages(t, id))
		busy := p.newConversation(t, "slow", "message files")
		p.follow(t, "POST", "/conversations/"+busy+"/messages", map[string]any{"message": "go", "stream": true}).frame()
		p.ask(t, "POST", "/conversations/"+busy+"/messages", map[string]any{"message": "x", "files": []any{good}}).refused(409, "conversation_busy")
		require.NoError(t, exactly(map[string]any{"files": []any{}})(p.ask(t, "GET", "/conversations/"+busy+"/files", nil).fits(200, anyObject).v))
		file := p.upload(t, busy, "while.txt", "text/plain", []byte("a turn runs"))
		p.ask(t, "DELETE", "/files/"+file.text("id"), nil).fits(200, anyObject)
		p.ask(t, "POST", "/conversations/"+busy+"/cancel", nil).fits(200, anyObject)
	})
	t.Run("streamed_message_with_files", func(t *testing.T) {
		id := p.newConversation(t, "open", "message files")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "stream": true, "files": []any{inline("a.txt", "x", "text/plain")}})
		require.Equal(t, "stream.start", s.frame().event)
		s.until("stream.done")
		s.ends()
		require.Len(t, p.messages(t, id)[0].at("files").list(), 1)
	})
}

func TestSpecFileOwnership(t *testing.T) {
	t.Parallel()
	p := shared.of(t, strings.Replace(tokenConfig, "spec-2", "content-2", 1)+"    capabilities: {attachments: {enabled: true}}\n"+
		"  - id: asking\n    model: {provider: scripted, script: {text: x}}\n    capabilities: {attachments: {enabled: true}}\n")
	ada, bob := bearer("ada-token"), bearer("bob-token")
	id := p.newConversation(t, "asking", "", ada...)
	owned := p.upload(t, id, "a.txt", "text/plain", []byte("hers"), ada...).text("id")
	loose := p.upload(t, "", "b.txt", "text/plain", []byte("hers, too"), ada...)
	require.Equal(t, "ada", loose.text("userId"))
	t.Run("another_users_files_are_403", func(t *testing.T) {
		for _, file := range []string{owned, loose.text("id")} {
			for _, route := range []string{"GET /files/%s", "GET /files/%s/content", "DELETE /files/%s", "GET /files/%s?userId=ada"} {
				method, path, _ := strings.Cut(fmt.Sprintf(route, file), " ")
				p.ask(t, method, path, nil, bob...).refused(403, "FORBIDDEN")
			}
			require.Equal(t, 200, p.ask(t, "GET", "/files/"+file+"/content", nil, ada...).status)
			p.ask(t, "GET", "/files/"+file, nil).refused(401, "AUTH_REQUIRED")
		}
		p.ask(t, "GET", "/conversations/"+id+"/files", nil, bob...).refused(403, "FORBIDDEN")
		p.uploading(t, id, "x.txt", "text/plain", []byte("his"), bob...).refused(403, "FORBIDDEN")
		theirs := p.newConversation(t, "asking", "", bob...)
		p.ask(t, "POST", "/conversations/"+theirs+"/messages", map[string]any{"message": "x", "fileIds": []string{owned}}, bob...).refused(404, "NOT_FOUND")
		require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/files", nil, ada...).fits(200, anyObject).at("files").list(), 1)
	})
	t.Run("content_routes_of_another_user_are_403", func(t *testing.T) {
		message := p.say(t, id, "hers", ada...).text("response", "id")
		for _, route := range []string{
			"POST /messages/" + message + "/regenerate", "POST /messages/" + message + "/edit", "POST /messages/" + message + "/feedback", "GET /export", "GET /export?format=json",
			"POST /messages/msg_AAAAAAAAAAAAAAAAAAAAA/regenerate",
		} {
			method, path, _ := strings.Cut(route, " ")
			p.ask(t, method, "/conversations/"+id+path, `{"content":"x","rating":"up"}`, bob...).refused(403, "FORBIDDEN")
		}
		require.Len(t, p.messages(t, id, ada...), 2)
	})
}
