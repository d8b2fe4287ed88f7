package export

import (
	"strings"

	"parley/proto/conversationpb"
)

// Markdown renders as Markdown. The text of messages is copied unchanged.
func Markdown(options Options) Format { return &markdown{options: options, locale: options.locale()} }

type markdown struct {
	options   Options
	locale    *Locale
	agentName string
}

// Head implements Format.
func (m *markdown) Head(dst []byte, conversation *conversationpb.State) []byte {
	m.agentName = conversation.GetAgentName()
	dst = append(dst, "# "+oneLine(title(conversation, m.locale))+"\n\n"...)
	if m.agentName != "" {
		dst = append(dst, "- "+m.locale.Agent+": "+oneLine(m.agentName)+"\n"...)
	}
	dst = append(dst, "- "+m.locale.Created+": "+m.locale.date(conversation.GetCreatedAt())+"\n"...)
	return append(dst, "- "+m.locale.Updated+": "+m.locale.date(conversation.GetUpdatedAt())+"\n"...)
}

// Message implements Format.
func (m *markdown) Message(dst []byte, message *conversationpb.Message) []byte {
	l := m.locale
	dst = append(dst, "\n---\n\n## "+oneLine(speaker(m.agentName, message, l))+"\n\n*"+l.date(message.GetCreatedAt())...)
	if status := remark(message, l); status != "" {
		dst = append(dst, " · "+status...)
	}
	dst = append(dst, "*\n"...)
	if m.options.Tools {
		for _, call := range message.GetToolCalls() {
			dst = m.call(dst, call)
		}
	}
	if content := strings.TrimSpace(message.GetContent()); content != "" {
		dst = append(dst, "\n"+content+"\n"...)
	}
	if files := message.GetFiles(); len(files) > 0 {
		dst = append(dst, "\n**"+l.Files+"**\n\n"...)
		for _, file := range files {
			dst = append(dst, "- "+oneLine(file.GetName())+" ("+file.GetMimeType()+", "+l.size(file.GetSize())+")\n"...)
		}
	}
	return dst
}

func (m *markdown) call(dst []byte, call *conversationpb.ToolCall) []byte {
	dst = append(dst, "\n**"+m.locale.Tool+": "+oneLine(call.GetName())+"**\n"...)
	dst = m.block(dst, m.locale.Arguments, call.GetArguments())
	dst = m.block(dst, m.locale.Result, call.GetResult())
	return m.block(dst, m.locale.Failure, call.GetError())
}

// block writes a text between fences that are longer than any fence inside it.
func (m *markdown) block(dst []byte, label, text string) []byte {
	if text == "" {
		return dst
	}
	fence := strings.Repeat("`", max(3, 1+longestRun(text, '`')))
	return append(dst, "\n"+label+":\n\n"+fence+"\n"+pretty(text)+"\n"+fence+"\n"...)
}

// End implements Format.
func (m *markdown) End(dst []byte) []byte { return dst }

// oneLine joins the lines of a text, for a heading.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// longestRun returns the length of the longest run of a character.
func longestRun(text string, c byte) (longest int) {
	run := 0
	for i := range len(text) {
		if text[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
