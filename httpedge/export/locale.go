package export

import (
	"fmt"
	"time"
)

// Locale holds the texts of one language.
type Locale struct {
	Tag                                    string // of the HTML page
	Conversation                           string // title of a conversation without one
	User, Assistant                        string
	Agent, Created, Updated                string
	Tool, Arguments, Result, Failure       string
	Files, Edited                          string
	Statuses                               map[string]string // remarks by message status
	Months                                 [12]string
	DayFirst                               bool
	Bytes, Kilobytes, Megabytes, Gigabytes string
}

// LocaleOf returns a built-in locale: en, tr.
func LocaleOf(tag string) (*Locale, bool) {
	switch tag {
	case "en":
		return english(), true
	case "tr":
		return turkish(), true
	default:
		return nil, false
	}
}

func english() *Locale {
	return &Locale{
		Tag: "en", Conversation: "Conversation", User: "User", Assistant: "Assistant",
		Agent: "Agent", Created: "Created", Updated: "Last message",
		Tool: "Tool", Arguments: "Arguments", Result: "Result", Failure: "Error",
		Files: "Files", Edited: "edited",
		Statuses: map[string]string{
			"cancelled": "cancelled", "incomplete": "incomplete", "requires_action": "waiting for a person",
		},
		Months: [12]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"},
		Bytes:  "bytes", Kilobytes: "kB", Megabytes: "MB", Gigabytes: "GB",
	}
}

func turkish() *Locale {
	return &Locale{
		Tag: "tr", Conversation: "Sohbet", User: "Kullanıcı", Assistant: "Asistan",
		Agent: "Ajan", Created: "Oluşturulma", Updated: "Son mesaj",
		Tool: "Araç", Arguments: "Argümanlar", Result: "Sonuç", Failure: "Hata",
		Files: "Dosyalar", Edited: "düzenlendi",
		Statuses: map[string]string{
			"cancelled": "iptal edildi", "incomplete": "tamamlanmadı", "requires_action": "bir kişiyi bekliyor",
		},
		Months:   [12]string{"Oca", "Şub", "Mar", "Nis", "May", "Haz", "Tem", "Ağu", "Eyl", "Eki", "Kas", "Ara"},
		DayFirst: true,
		Bytes:    "bayt", Kilobytes: "kB", Megabytes: "MB", Gigabytes: "GB",
	}
}

// date formats Unix milliseconds in the language's usual form, in UTC.
func (l *Locale) date(unixMilli int64) string {
	t := time.UnixMilli(unixMilli).UTC()
	month := l.Months[t.Month()-1]
	if l.DayFirst {
		return fmt.Sprintf("%d %s %d %s UTC", t.Day(), month, t.Year(), t.Format("15:04"))
	}
	return fmt.Sprintf("%s %d, %d, %s UTC", month, t.Day(), t.Year(), t.Format("15:04"))
}

// size formats a number of bytes.
func (l *Locale) size(n int64) string {
	const step = 1000
	switch {
	case n < step:
		return fmt.Sprintf("%d %s", n, l.Bytes)
	case n < step*step:
		return fmt.Sprintf("%d %s", (n+step/2)/step, l.Kilobytes)
	case n < step*step*step:
		return fmt.Sprintf("%d %s", (n+step*step/2)/(step*step), l.Megabytes)
	default:
		return fmt.Sprintf("%d %s", n/(step*step*step), l.Gigabytes)
	}
}
