"""Programs that show Headway at work; nothing in Headway imports them."""
