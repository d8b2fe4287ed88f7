package export

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's styles
	"encoding/base64"
	"html"
	"strings"

	"github.com/microcosm-cc/bluemonday" // lets only known elements through; nothing in the standard library does
	"github.com/yuin/goldmark"           // Markdown is the answers' language; CommonMark, no dependencies
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"parley/proto/conversationpb"
)

//go:embed style.css
var screenStyle string

//go:embed print.css
var printStyle string

// HTML renders as one self-contained page.
func HTML(options Options) Format {
	return &page{
		options: options, locale: options.locale(),
		markdown: goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(
			renderer.WithNodeRenderers(util.Prioritized(rawAsText{}, beforeOwn)),
		)),
		clean: cleaner(),
	}
}

// beforeOwn is a priority higher than that of Goldmark's own renderer.
const beforeOwn = 100

// rawAsText shows HTML in an answer as text: often the answer is about it, and omitting it would lose part of the
// conversation.
type rawAsText struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (rawAsText) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := node.(*ast.RawHTML); ok && entering {
			_, _ = w.Write(util.EscapeHTML(raw.Segments.Value(source))) // into memory
		}
		return ast.WalkSkipChildren, nil
	})
	register.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		block, ok := node.(*ast.HTMLBlock)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		text := block.Lines().Value(source)
		if block.HasClosure() {
			text = append(text, block.ClosureLine.Value(source)...)
		}
		_, _ = w.WriteString("<pre>") // the same
		_, _ = w.Write(util.EscapeHTML(bytes.TrimRight(text, "\n")))
		_, _ = w.WriteString("</pre>\n")
		return ast.WalkContinue, nil
	})
}

// Policy is the content security policy that the page must be served with. The page repeats the part that is allowed
// inside a page.
func Policy(options Options) string {
	return inPage(options) + "; frame-ancestors 'none'; sandbox"
}

func inPage(options Options) string {
	sum := sha256.Sum256([]byte(style(options)))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " +
		"base-uri 'none'; form-action 'none'"
}

func style(options Options) string {
	if options.Print {
		return screenStyle + printStyle
	}
	return screenStyle
}

// cleaner passes the elements that Markdown produces, and nothing that could run, load or deceive.
func cleaner() *bluemonday.Policy {
	policy := bluemonday.NewPolicy()
	policy.AllowElements(
		"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "del",
		"ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td",
	)
	policy.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	policy.AllowAttrs("href").OnElements("a")
	policy.AllowURLSchemes("http", "https", "mailto")
	policy.RequireParseableURLs(true)
	policy.RequireNoFollowOnLinks(true)
	policy.RequireNoReferrerOnLinks(true)
	return policy
}

type page struct {
	options   Options
	locale    *Locale
	agentName string
	markdown  goldmark.Markdown
	clean     *bluemonday.Policy
}

// Head implements Format.
func (p *page) Head(dst []byte, conversation *conversationpb.State) []byte {
	p.agentName = conversation.GetAgentName()
	name := html.EscapeString(title(conversation, p.locale))
	dst = append(dst, "<!doctype html>\n<html lang=\""+p.locale.Tag+"\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\""+inPage(p.options)+"\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<meta name=\"referrer\" content=\"no-referrer\">\n"+
		"<title>"+name+"</title>\n<style>"+style(p.options)+"</style>\n</head>\n<body>\n<header>\n<h1>"+name+"</h1>\n<p>"...)
	if p.agentName != "" {
		dst = append(dst, p.locale.Agent+": "+html.EscapeString(p.agentName)+" · "...)
	}
	return append(dst, p.locale.Created+": "+p.locale.date(conversation.GetCreatedAt())+" · "+
		p.locale.Updated+": "+p.locale.date(conversation.GetUpdatedAt())+"</p>\n</header>\n<main>\n"...)
}

// Message implements Format.
func (p *page) Message(dst []byte, message *conversationpb.Message) []byte {
	l := p.locale
	role := "assistant"
	if message.GetRole() == conversationpb.Role_USER {
		role = "user"
	}
	dst = append(dst, "<article class=\""+role+"\">\n<h2>"+html.EscapeString(speaker(p.agentName, message, l))+
		" <small>"+l.date(message.GetCreatedAt())...)
	if status := remark(message, l); status != "" {
		dst = append(dst, " · "+status...)
	}
	dst = append(dst, "</small></h2>\n"...)
	if p.options.Tools {
		for _, call := range message.GetToolCalls() {
			dst = p.call(dst, call)
		}
	}
	dst = p.content(dst, role, message.GetContent())
	if files := message.GetFiles(); len(files) > 0 {
		dst = append(dst, "<ul class=\"files\" aria-label=\""+l.Files+"\">\n"...)
		for _, file := range files {
			dst = append(dst, "<li>"+html.EscapeString(file.GetName())+" <small>"+html.EscapeString(file.GetMimeType())+
				", "+l.size(file.GetSize())+"</small></li>\n"...)
		}
		dst = append(dst, "</ul>\n"...)
	}
	return append(dst, "</article>\n"...)
}

// content renders the text of a message: plain text from people, Markdown from models.
func (p *page) content(dst []byte, role, content string) []byte {
	content = strings.TrimSpace(strings.ToValidUTF8(content, "\uFFFD"))
	if content == "" {
		return dst
	}
	var rendered bytes.Buffer
	if role == "user" || !tame(content) || p.markdown.Convert([]byte(content), &rendered) != nil {
		return append(dst, "<div class=\"text\">"+html.EscapeString(content)+"</div>\n"...)
	}
	dst = append(dst, "<div>"...)
	dst = append(dst, p.clean.SanitizeBytes(rendered.Bytes())...)
	return append(dst, "</div>\n"...)
}

func (p *page) call(dst []byte, call *conversationpb.ToolCall) []byte {
	l := p.locale
	dst = append(dst, "<section class=\"tool\">\n<h3>"+l.Tool+": "+html.EscapeString(call.GetName())+"</h3>\n"...)
	for _, part := range []struct{ label, text string }{
		{l.Arguments, call.GetArguments()}, {l.Result, call.GetResult()}, {l.Failure, call.GetError()},
	} {
		if part.text == "" {
			continue
		}
		text := html.EscapeString(strings.ToValidUTF8(pretty(part.text), "\uFFFD"))
		dst = append(dst, "<h4>"+part.label+"</h4>\n<pre>"+text+"</pre>\n"...)
	}
	return append(dst, "</section>\n"...)
}

// End implements Format.
func (p *page) End(dst []byte) []byte { return append(dst, "</main>\n</body>\n</html>\n"...) }
