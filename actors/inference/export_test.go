package inference

// Treatments is the table of parameters, in words: by name and kind of model.
func Treatments() map[string]map[string]string {
	words := map[treatment]string{own: "own", pass: "pass", allowed: "allowed", mapped: "mapped", ignored: "ignored", refused: "refused"}
	all := map[string]map[string]string{}
	for _, row := range parameters {
		all[row.name] = map[string]string{
			"chat": words[row.relayed], "home": words[row.responses], "claude": words[row.messages], "scripted": words[row.scripted],
		}
	}
	return all
}

// KeptBytes is the memory that kept answers take.
func (c *Caller) KeptBytes() int64 { return c.cache.size() }

// Neutral is the values of a parameter that are nowhere refused.
func Neutral(name string) []string {
	row, _ := parameterOf(name)
	return row.neutral
}
