"""Lexicon of the entailment task: families of nouns and verbs, a hypernym with its hyponyms."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .english import words_in

# Strict hyponymy: each violinist is a musician.
PEOPLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "musician": ("violinist", "pianist", "drummer", "guitarist", "cellist"),
        "doctor": ("surgeon", "psychiatrist", "pediatrician", "cardiologist"),
        "scientist": ("chemist", "biologist", "physicist", "geologist", "astronomer"),
        "athlete": ("gymnast", "sprinter", "wrestler", "boxer", "footballer"),
        "writer": ("poet", "novelist", "journalist", "playwright", "columnist"),
        "artist": ("sculptor", "illustrator", "cartoonist"),
        "child": ("boy", "girl", "toddler", "baby"),
        "teacher": ("professor", "tutor", "lecturer"),
        "politician": ("senator", "mayor", "governor"),
        "craftsman": ("carpenter", "potter", "blacksmith", "weaver"),
        "traveler": ("tourist", "pilgrim", "hitchhiker", "backpacker"),
        "student": ("freshman", "undergraduate", "sophomore", "schoolgirl"),
        "performer": ("actor", "dancer", "comedian", "magician", "juggler", "acrobat"),
        "ruler": ("king", "queen", "emperor", "sultan"),
        "employee": ("cashier", "receptionist", "secretary", "janitor"),
        "lawyer": ("prosecutor", "barrister", "solicitor"),
        "relative": ("aunt", "uncle", "cousin", "nephew"),
    }
)
ANIMALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dog": ("poodle", "beagle", "terrier", "spaniel", "bulldog"),
        "bird": ("robin", "sparrow", "parrot", "eagle", "owl", "pigeon"),
        "horse": ("pony", "stallion", "mare", "foal"),
        "reptile": ("lizard", "snake", "turtle", "crocodile"),
        "insect": ("beetle", "ant", "butterfly", "wasp", "cricket"),
        "cat": ("kitten", "tabby", "tomcat"),
        "rodent": ("mouse", "rat", "squirrel", "hamster", "beaver"),
        "ape": ("gorilla", "chimpanzee", "orangutan"),
        "fish": ("salmon", "trout", "shark", "goldfish"),
        "deer": ("stag", "fawn", "doe"),
    }
)

# Each as "base past"; a member entails its family: whoever chases follows. Multiword verbs join their words
# with "_".
VERBS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "follow followed": ("chase chased", "pursue pursued", "shadow shadowed"),
        "touch touched": ("hug hugged", "pat patted", "tickle tickled", "kiss kissed", "stroke stroked"),
        "see saw": ("spot spotted", "glimpse glimpsed", "notice noticed"),
        "move moved": ("carry carried", "lift lifted", "drag dragged", "haul hauled"),
        "clean cleaned": ("wash washed", "scrub scrubbed", "rinse rinsed", "bathe bathed"),
        "talk_to talked_to": (
            "chat_with chatted_with",
            "whisper_to whispered_to",
            "gossip_with gossiped_with",
        ),
        "depict depicted": ("paint painted", "sketch sketched", "photograph photographed"),
        "help helped": ("rescue rescued", "save saved", "comfort comforted", "protect protected"),
        "teach taught": ("train trained", "coach coached", "tutor tutored"),
        "praise praised": ("applaud applauded", "compliment complimented", "glorify glorified"),
        "criticize criticized": ("scold scolded", "ridicule ridiculed", "denounce denounced"),
        "approach approached": ("run_up_to ran_up_to", "walk_up_to walked_up_to", "creep_up_on crept_up_on"),
        "frighten frightened": ("terrify terrified", "startle startled", "spook spooked"),
        "imitate imitated": ("parody parodied", "impersonate impersonated"),
        "greet greeted": ("salute saluted", "welcome welcomed", "bow_to bowed_to"),
        "please pleased": ("delight delighted", "thrill thrilled", "enchant enchanted"),
        "anger angered": ("infuriate infuriated", "enrage enraged"),
    }
)

# No two are incompatible, since a contradictory premise would entail everything; and none is a hyponym of
# another.
ADJECTIVES = words_in(
    "hungry thirsty sleepy wet muddy dusty lost lonely nervous cheerful shy silent curious proud jealous "
    "confused sick cold trembling yawning limping lucky stranded masked bandaged sunburned "
    "frightened injured sneezing friendly impatient suspicious stubborn clumsy blindfolded dizzy homesick "
    "forgetful freckled breathless"
)
ADVERBS = words_in(
    "secretly quietly stubbornly proudly curiously suddenly carefully deliberately repeatedly gently "
    "nervously cheerfully eagerly patiently politely shyly thoughtfully immediately playfully briefly"
)
