package access

// Level is how much somebody may do with a service; each contains those below it.
type Level uint8

// Levels.
const (
	None Level = iota
	Read
	Write
	Admin
)

// String is the level as records and the wire name it.
func (l Level) String() string {
	switch l {
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

// ParseLevel reads a level as String writes it.
func ParseLevel(text string) (level Level, ok bool) {
	switch text {
	case "none":
		return None, true
	case "read":
		return Read, true
	case "write":
		return Write, true
	case "admin":
		return Admin, true
	default:
		return None, false
	}
}
