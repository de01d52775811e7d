"""Where does text come from? Readers of files and of the hub, all giving examples with ids."""
