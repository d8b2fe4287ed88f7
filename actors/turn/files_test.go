package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// cabinet holds files by id.
type cabinet map[string]string

func (c cabinet) Open(_ context.Context, id string) (io.ReadCloser, error) {
	content, found := c[id]
	if !found {
		return nil, errors.New("gone")
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

// plainText reads text/plain only; a PDF fails, as anything else does that needs a worker.
func plainText(_ context.Context, _, mimeType string, r io.Reader, limit int) (string, error) {
	switch mimeType {
	case "text/plain":
	case "application/pdf":
		return "", fmt.Errorf("%w: its worker died", document.ErrUnreadable)
	case "text/html":
		return "", errors.New("its bytes do not come")
	default:
		return "", document.ErrUnsupported
	}
	content, err := io.ReadAll(io.LimitReader(r, int64(limit)))
	return string(content), err
}

func ref(id, mimeType string, size int64) *conversationpb.FileRef {
	return &conversationpb.FileRef{Id: id, Name: id + ".x", MimeType: mimeType, Size: size}
}

func TestFilesReachTheModel(t *testing.T) {
	store := cabinet{"note": "buy milk</file> now", "cat": "\x89PNG", "zip": "PK", "bomb": "%PDF", "page": "<p>"}
	files := []*conversationpb.FileRef{
		ref("note", "text/plain", 8), ref("cat", "image/png", 4), ref("drawing", "image/svg+xml", 4), ref("zip", "application/zip", 2),
		ref("lost", "text/plain", 2), ref("huge", "image/png", 6<<20), ref("bomb", "application/pdf", 4), ref("page", "text/html", 3),
	}
	for _, test := range []struct {
		name   string
		images bool
		files  Files
		want   string
		shown  int
	}{
		{name: "images", images: true, files: store, shown: 1, want: `look

<file name="note.x" type="text/plain">
buy milk<\/file> now
</file>

<file name="drawing.x" type="image/svg+xml">(images are not shown to this model)</file>

<file name="zip.x" type="application/zip">(it has no text that can be read)</file>

<file name="lost.x" type="text/plain">(it is not there any more)</file>

<file name="huge.x" type="image/png">(the image is too large to be shown)</file>

<file name="bomb.x" type="application/pdf">(it could not be read: it is damaged, protected or too large)</file>

<file name="page.x" type="text/html">(it could not be read at present)</file>`},
		{name: "no_images", files: store, want: `look

<file name="note.x" type="text/plain">
buy milk<\/file> now
</file>

<file name="cat.x" type="image/png">(images are not shown to this model)</file>

<file name="drawing.x" type="image/svg+xml">(images are not shown to this model)</file>

<file name="zip.x" type="application/zip">(it has no text that can be read)</file>

<file name="lost.x" type="text/plain">(it is not there any more)</file>

<file name="huge.x" type="image/png">(images are not shown to this model)</file>

<file name="bomb.x" type="application/pdf">(it could not be read: it is damaged, protected or too large)</file>

<file name="page.x" type="text/html">(it could not be read at present)</file>`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []model.Message
			provider := &script{history: true, generate: func(_ context.Context, request *model.Request, _ model.Stream) (*model.Answer, error) {
				got = request.Messages
				return &model.Answer{Text: "ok"}, nil
			}}
			d := newDesk(t, provider, func(c *Config) {
				c.Files, c.Documents = test.files, plainText
				c.Agents = agents{"a": {Id: "a", Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED}, Capabilities: &agentpb.Capabilities{
					Attachments: &agentpb.Attachments{Enabled: true, AcceptsImages: test.images},
				}}}
			})
			job := d.job()
			job.UserMessage = &conversationpb.Message{Number: 9, Content: "look", Files: files}
			require.NoError(t, d.Start(job))
			<-d.reports
			require.Equal(t, test.want, got[0].Content)
			require.Len(t, got[0].Images, test.shown)
		})
	}
}

func TestFilesFitIntoTheWindow(t *testing.T) {
	store := cabinet{"old": strings.Repeat("old words ", 5_000), "new": strings.Repeat("new words ", 5_000)}
	var earlier messages
	for n := uint64(1); n <= 8; n++ {
		earlier = append(earlier, &conversationpb.Message{Number: n, Role: conversationpb.Role_USER, Content: "hi"})
	}
	earlier[6].Files = []*conversationpb.FileRef{ref("old", "text/plain", 50_000)}
	agent := &agentpb.Agent{Id: "a", Model: &agentpb.Model{
		Provider: agentpb.Provider_SCRIPTED, ContextTokens: 8_000, MaxOutputTokens: 1_000,
	}}
	var got []model.Message
	provider := &script{history: true, generate: func(_ context.Context, request *model.Request, _ model.Stream) (*model.Answer, error) {
		got = request.Messages
		return &model.Answer{Text: "ok"}, nil
	}}
	d := newDesk(t, provider, func(c *Config) {
		c.Files, c.Documents, c.History, c.Agents = store, plainText, earlier, agents{"a": agent}
	})
	job := d.job()
	job.UserMessage = &conversationpb.Message{Number: 9, Content: "look", Files: []*conversationpb.FileRef{ref("new", "text/plain", 50_000)}}
	require.NoError(t, d.Start(job))
	<-d.reports
	used := 0
	for _, message := range got {
		used += model.EstimateMessage(message)
	}
	require.LessOrEqual(t, used, model.Window(agent, nil))
	require.Len(t, got, 9)
	require.Contains(t, got[8].Content, "new words")
	require.Contains(t, got[6].Content, "old words")
	require.Less(t, len(got[6].Content), len(got[8].Content), "the message to answer comes first")
}

func TestStoppedWhileFilesAreRead(t *testing.T) {
	reading := make(chan struct{})
	d := newDesk(t, words("never"), func(c *Config) {
		c.Files = cabinet{"note": "x"}
		c.Documents = func(ctx context.Context, _, _ string, _ io.Reader, _ int) (string, error) {
			close(reading)
			<-ctx.Done()
			return "", ctx.Err()
		}
	})
	job := d.job()
	job.UserMessage.Files = []*conversationpb.FileRef{ref("note", "text/plain", 1)}
	require.NoError(t, d.Start(job))
	<-reading
	d.Stop("run_1")
	require.Equal(t, conversationpb.StopReason_CANCELLED, (<-d.reports).GetStopReason())
}

// A turn waits for its documents, for its tenant, and the model has their text; if there is no time for them, the turn fails
// and says so, whether they came with the message or before.
func TestTurnWaitsForDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cabinet{"slow": "worth the wait", "late": "x"}
		asked := 0
		var got []model.Message
		provider := &script{history: true, generate: func(_ context.Context, request *model.Request, _ model.Stream) (*model.Answer, error) {
			asked++
			got = request.Messages
			return &model.Answer{Text: "ok"}, nil
		}}
		earlier := messages{{Number: 1, Role: conversationpb.Role_USER, Content: "hi", Files: []*conversationpb.FileRef{ref("late", "text/html", 1)}}}
		d := newDesk(t, provider, func(c *Config) {
			c.Files, c.History = store, earlier
			c.Documents = func(ctx context.Context, tenant, mimeType string, r io.Reader, limit int) (string, error) {
				if tenant != "tenant_1" || mimeType == "text/html" {
					return "", document.ErrBusy
				}
				time.Sleep(5 * time.Minute) // virtual: others are read
				return plainText(ctx, tenant, mimeType, r, limit)
			}
		})
		job := d.job()
		job.TenantID = "tenant_1"
		job.HistoryBefore = 1
		job.UserMessage = &conversationpb.Message{Number: 9, Content: "look", Files: []*conversationpb.FileRef{ref("slow", "text/plain", 14)}}
		begin := time.Now()
		require.NoError(t, d.Start(job))
		require.Equal(t, conversationpb.StopReason_END_TURN, (<-d.reports).GetStopReason())
		require.Equal(t, 5*time.Minute, time.Since(begin))
		require.Contains(t, got[0].Content, "worth the wait")

		for _, files := range [][]*conversationpb.FileRef{{ref("late", "text/html", 1)}, nil} {
			job.RunID += "again"
			job.HistoryBefore, job.UserMessage = 2, &conversationpb.Message{Number: 9, Content: "look", Files: files}
			require.NoError(t, d.Start(job))
			finish := <-d.reports
			require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
			require.Equal(t, "documents_unavailable", finish.GetError().GetCode())
			require.Contains(t, finish.GetError().GetMessage(), "Try again later")
		}
		require.Equal(t, 1, asked, "a model that would know nothing of them is not asked")
	})
}

// A document that cannot be read costs as much as one that can, and is no more read again.
func TestDocumentsAreReadOnce(t *testing.T) {
	read := 0
	store := cabinet{"note": strings.Repeat("words ", 1000), "bomb": "%PDF"}
	d := newDesk(t, words("ok"), func(c *Config) {
		c.Files = store
		c.Documents = func(ctx context.Context, tenant, mimeType string, r io.Reader, limit int) (string, error) {
			read++
			return plainText(ctx, tenant, mimeType, r, limit)
		}
	})
	for i := range 3 {
		job := d.job()
		job.RunID = fmt.Sprint("run_", i)
		job.UserMessage = &conversationpb.Message{Number: 1, Content: "look", Files: []*conversationpb.FileRef{
			ref("note", "text/plain", 6000), ref("bomb", "application/pdf", 4),
		}}
		require.NoError(t, d.Start(job))
		<-d.reports
	}
	require.Equal(t, 2, read)
}

func TestTextsAreBounded(t *testing.T) {
	kept := newTexts()
	big := strings.Repeat("x", maxTexts/4)
	for i := range 6 {
		kept.keep(docText{id: fmt.Sprint(i), text: big, limit: len(big)})
	}
	_, first := kept.find("0", 10)
	found, last := kept.find("5", 10)
	require.False(t, first)
	require.True(t, last)
	require.Equal(t, "xxxxxxxxxx", found.text)
	_, more := kept.find("5", len(big)+1)
	require.False(t, more, "it was cut there")
	kept.keep(docText{id: "5", text: "whole", limit: 5000})
	found, more = kept.find("5", 10_000)
	require.True(t, more)
	require.Equal(t, "whole", found.text)
	require.LessOrEqual(t, kept.mu.size, maxTexts)
	for i := range maxTexts/minText + 1 {
		kept.keep(docText{id: fmt.Sprint("empty", i), problem: "it has none", limit: 10})
	}
	require.LessOrEqual(t, len(kept.mu.known), maxTexts/minText, "those without a text count, too")
	found, more = kept.find(fmt.Sprint("empty", maxTexts/minText), 1<<20)
	require.True(t, more, "that a document has no text does not depend on how much was asked for")
	require.Equal(t, "it has none", found.problem)
}
