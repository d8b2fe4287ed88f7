package export_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/httpedge/export"
	"parley/proto/conversationpb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run with -rewrite when the change is meant")
}

const start = 1_700_000_000_000

func conversation() *conversationpb.State {
	return &conversationpb.State{
		Id: "conv_1", Title: "Weather <in> İzmir", AgentName: "Helper & Co", CreatedAt: start, UpdatedAt: start + 3_600_000,
	}
}

func messages() []*conversationpb.Message {
	return []*conversationpb.Message{
		{
			Role: conversationpb.Role_USER, Content: "How is **it**?\n\n  <b>Now</b>", CreatedAt: start, Edited: true,
			Files: []*conversationpb.FileRef{
				{Name: "a <b>.png", MimeType: "image/png", Size: 123_456},
				{Name: "x.txt", MimeType: "text/plain", Size: 7},
			},
		},
		{
			Role: conversationpb.Role_ASSISTANT, Status: "completed", CreatedAt: start + 1000,
			Content: "# Sunny\n\nUse `curl`:\n\n```sh\ncurl <x>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n" +
				"[site](https://example.com/a?b=c&d) [bad](javascript:alert(1)) ![pixel](https://example.com/p.png) ~~no~~\n\n" +
				"<script>alert(1)</script><img src=x onerror=alert(1)>\n\n3. three\n4. four\n",
			ToolCalls: []*conversationpb.ToolCall{
				{Id: "c1", Name: "weather", Arguments: `{"city":"İzmir","deep":{"a":[1,2]}}`, Result: "25 ```C```"},
				{Id: "c2", Name: "<tool>", Arguments: `{}`, Error: "no <answer>"},
			},
		},
		{Role: conversationpb.Role_ASSISTANT, Status: "cancelled", CreatedAt: start + 86_400_000*60},
		{Role: conversationpb.Role_ASSISTANT, Status: "incomplete", CreatedAt: start + 86_400_000*90, Content: "half a"},
	}
}

// pages hands out messages, size at a time.
func pages(all []*conversationpb.Message, size int) export.Pages {
	return func() ([]*conversationpb.Message, error) {
		n := min(size, len(all))
		page := all[:n]
		all = all[n:]
		return page, nil
	}
}

func render(t *testing.T, format export.Format) []byte {
	t.Helper()
	got, err := io.ReadAll(export.Stream(format, conversation(), pages(messages(), 3)))
	require.NoError(t, err)
	return got
}

func locale(t *testing.T, tag string) *export.Locale {
	t.Helper()
	found, ok := export.LocaleOf(tag)
	require.True(t, ok)
	return found
}

func TestGolden(t *testing.T) {
	golden(t, "plain.en.md", render(t, export.Markdown(export.Options{})))
	golden(t, "tools.tr.md", render(t, export.Markdown(export.Options{Locale: locale(t, "tr"), Tools: true})))
	golden(t, "plain.en.html", render(t, export.HTML(export.Options{})))
	golden(t, "tools.print.tr.html", render(t, export.HTML(export.Options{Locale: locale(t, "tr"), Tools: true, Print: true})))
	_, ok := export.LocaleOf("de")
	require.False(t, ok)
}

// TestPolicyFitsThePage: the page's only style is the one that its policy names.
func TestPolicyFitsThePage(t *testing.T) {
	for _, options := range []export.Options{{}, {Print: true}} {
		page := string(render(t, export.HTML(options)))
		policy := export.Policy(options)
		require.Contains(t, policy, "default-src 'none'")
		require.Contains(t, policy, "sandbox")
		hash := regexp.MustCompile(`'sha256-[^']+'`).FindString(policy)
		require.NotEmpty(t, hash)
		require.Contains(t, page, hash)
		require.Equal(t, 1, strings.Count(page, "<style"))
	}
	require.NotEqual(t, export.Policy(export.Options{}), export.Policy(export.Options{Print: true}))
}

// TestHostileAnswersStayHarmless: whatever a model writes, the page has only known elements and links that go out.
func TestHostileAnswersStayHarmless(t *testing.T) {
	known := regexp.MustCompile(`^</?(article|h[1-6]|small|div|section|pre|code|p|br|hr|blockquote|em|strong|del|ul|ol|li|` +
		`table|thead|tbody|tr|th|td|a)( class="(user|assistant|text|tool|files)"| start="[0-9]+"| aria-label="Files"` +
		`| href="(https?|mailto):[^"<>]*"| rel="[a-z ]+")*/?>$`)
	tag := regexp.MustCompile(`<[^>]*>`)
	pieces := []string{
		"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "[a](data:text/html,x)",
		"![i](https://example.com/x.png)", "<svg/onload=alert(1)>", "<a href='javascript:x'>", "<iframe src=//x>", "**b**", "`c`",
		"<style>*{}</style>", "<meta http-equiv=refresh content=0>", "<https://example.com>", "<base href=//x>", "\n\n", "- x\n",
		"> q\n", "```html\n<b>\n```\n", "| a |\n|---|\n| <u> |\n", "&lt;script&gt;", "<!-- c", "]]>", "<", ">", "\"'", "\x00", "\xff",
		"[x]: javascript:alert(1)\n[x]", "<form action=//x>", "https://example.com/\"><b", "- [ ] task\n",
	}
	format := export.HTML(export.Options{Tools: true})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, label), "")
		}
		message := &conversationpb.Message{
			Role: conversationpb.Role_ASSISTANT, Content: draw("content"), Name: draw("name"),
			ToolCalls: []*conversationpb.ToolCall{{Name: draw("tool"), Arguments: draw("arguments"), Result: draw("result")}},
			Files:     []*conversationpb.FileRef{{Name: draw("file"), MimeType: draw("type")}},
		}
		if rapid.Bool().Draw(t, "user") {
			message.Role = conversationpb.Role_USER
		}
		page := string(format.Message(nil, message))
		for _, found := range tag.FindAllString(page, -1) {
			if !known.MatchString(found) {
				t.Fatalf("unexpected %s in %s", found, page)
			}
		}
	})
}

func TestStreamIsTheSameInAnyPieces(t *testing.T) {
	want := render(t, export.Markdown(export.Options{Tools: true}))
	for size := 1; size <= 5; size++ {
		source := export.Stream(export.Markdown(export.Options{Tools: true}), conversation(), pages(messages(), size))
		got, err := io.ReadAll(iotest.OneByteReader(source))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	broken := errors.New("gone")
	_, err := io.ReadAll(export.Stream(export.HTML(export.Options{}), conversation(), func() ([]*conversationpb.Message, error) {
		return nil, broken
	}))
	require.ErrorIs(t, err, broken, "never taken for whole")
}

func TestFileName(t *testing.T) {
	for title, want := range map[string]string{
		"":                       "conversation.md",
		" .. ":                   "conversation.md",
		"Weather in İzmir":       "Weather in İzmir.md",
		"a/b\\c:\"d\"\r\n<e>|f*": "a b c d e f.md",
		"../../etc/passwd":       ".. etc passwd.md",
		"a\u202Edm.exe\u2028b":   "adm.exe b.md",
		strings.Repeat("ü", 200): strings.Repeat("ü", 80) + ".md",
	} {
		require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(export.FileName(&conversationpb.State{Title: title}, "md")), title)
	}
}

func TestMarkdownFencesHold(t *testing.T) {
	got := export.Markdown(export.Options{Tools: true}).Message(nil, &conversationpb.Message{
		ToolCalls: []*conversationpb.ToolCall{{Name: "a\n# b", Result: "````\nx"}},
	})
	require.True(t, bytes.Contains(got, []byte("`````\n````\nx\n`````\n")), "%s", got)
	require.NotContains(t, string(got), "\n# b")
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	got = export.Markdown(export.Options{Tools: true}).Message(nil, &conversationpb.Message{
		ToolCalls: []*conversationpb.ToolCall{{Name: "a", Result: deep}},
	})
	require.Less(t, len(got), 20_000)
}
